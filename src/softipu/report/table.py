"""Plain-text tables."""

from typing import List, Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], total: Sequence[str] = (), *, left: Sequence[int] = (0,)) -> List[str]:
    """Lines of a table: columns two blanks apart, right-aligned but for those in ``left``, with a rule above ``total``."""
    every = [header, *rows] + ([total] if total else [])
    widths = [max(len(row[i]) for row in every) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip()

    rule = "  ".join("-" * w for w in widths)
    return [line(header), rule, *map(line, rows)] + ([rule, line(total)] if total else [])
