#!/usr/bin/env bash
# find_python.sh WANTED...
# Prints the first usable Python of those wanted, each a version (3.11) or a path. Usable: it starts, and can make environments.
# Looks on PATH, then in pyenv, whose commands on PATH only start the versions that it was told to activate.
set -u

pyenv_roots() {
  [ -n "${PYENV_ROOT:-}" ] && printf '%s\n' "$PYENV_ROOT"
  if command -v pyenv >/dev/null 2>&1; then
    pyenv root 2>/dev/null
    # A fresh HOME hides the real root from `pyenv root`; the command itself lies in <root>/bin.
    dirname "$(dirname "$(command -v pyenv)")"
  fi
  printf '%s\n' "$HOME/.pyenv"
}

candidates() {
  case "$1" in */*) printf '%s\n' "$1"; return ;; esac
  type -aP "python$1" python3 python
  local root
  for root in $(pyenv_roots); do ls -d "$root/versions/$1."*/bin/python 2>/dev/null; done
}

usable() {
  "$1" -c '
import sys, venv, ensurepip
wanted = sys.argv[1]
sys.exit("/" not in wanted and wanted != "%d.%d" % sys.version_info[:2])
' "$2" >/dev/null 2>&1 </dev/null
}

for wanted in "$@"; do
  while IFS= read -r python; do
    if usable "$python" "$wanted"; then printf '%s\n' "$python"; exit 0; fi
  done < <(candidates "$wanted")
done
printf 'No usable Python found. Looked on PATH and in pyenv for: %s (each needs its venv and ensurepip modules).\n' "$*" >&2
exit 1
