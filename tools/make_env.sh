#!/usr/bin/env bash
# make_env.sh FOLDER EXTRAS WANTED...
# Makes or updates the virtual environment FOLDER with the first Python found of those WANTED (see find_python.sh), and
# installs this package in it, editable, with EXTRAS. Python 3.8 gets the versions of requirements/ipu-machine.txt, 3.11 and
# newer those of requirements/current.txt; between them no stack is pinned and pip takes the newest versions there are.
set -eu
folder=$1 extras=$2
shift 2
cd "$(dirname "$0")/.."

if ! "$folder/bin/python" -c '' 2>/dev/null; then
  python=$(tools/find_python.sh "$@")
  printf 'Making %s with %s\n' "$folder" "$python"
  "$python" -m venv --clear "$folder"
  # Python 3.8's own pip may be older than editable installs from pyproject.toml.
  "$folder/bin/python" -m pip install --quiet --upgrade pip
fi

version=$("$folder/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
constraints=()
case "$version" in
  3.8) constraints=(--constraint requirements/ipu-machine.txt) ;;
  3.9 | 3.10) printf 'Python %s belongs to no pinned stack: taking the newest versions it can have.\n' "$version" ;;
  *) constraints=(--constraint requirements/current.txt) ;;
esac
printf 'Installing lightning-ipu[%s] for Python %s (the first time this downloads PyTorch: some minutes)\n' "$extras" "$version"
"$folder/bin/python" -m pip install --quiet ${constraints[@]+"${constraints[@]}"} --editable ".[$extras]"
