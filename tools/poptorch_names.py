"""Writes the table of PopTorch's names into docs/poptorch.md, from the code.

python tools/poptorch_names.py            write
python tools/poptorch_names.py --check    only say whether the page is up to date (exit status 1 if not)
"""

import sys
from pathlib import Path

from softipu.poptorch.support import Support, all_names

PAGE = Path(__file__).resolve().parent.parent / "docs" / "poptorch.md"
BEGIN = "<!-- names: written by tools/poptorch_names.py -->"
END = "<!-- end of names -->"


def table() -> str:
    """The section between the marks."""
    names = all_names()
    counts = {support: sum(n.support is support for n in names) for support in Support}
    lines = [
        BEGIN,
        "",
        f"Of {len(names)} names {counts[Support.SUPPORTED]} are supported, {counts[Support.REPORTED]} reported (accepted, without effect "
        f"here) and {counts[Support.REFUSED]} refused (an error that says what to do).",
        "",
        "| name | software IPU | remark |",
        "|---|---|---|",
    ]
    lines += [f"| `{n.name}` | {n.support.value} | {n.note} |" for n in names]
    return "\n".join([*lines, "", END])


def page() -> str:
    """The whole page with a new table; what is written by hand stays."""
    text = PAGE.read_text(encoding="utf-8")
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n## Every name\n\n{BEGIN}\n{END}\n"
    before, rest = text.split(BEGIN)
    return before + table() + rest.split(END)[1]


def main() -> int:
    new = page()
    if "--check" in sys.argv[1:]:
        if new != PAGE.read_text(encoding="utf-8"):
            print(f"{PAGE} is not up to date: run python tools/poptorch_names.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
