"""The page on what works names tests that there are."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "compatibility.md"
AREAS = [
    "Logging", "torchmetrics", "Outputs", "Batches", "Uneven data", "Gradient clipping", "Precision", "LR schedulers", "Checkpoints",
    "Host edits", "Python values", "Hooks", "Optimization", "Trainer flags", "Devices", "Model parallelism",
]  # fmt: skip


def rows(page):
    """The table's cells, row by row, without its head."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def missing(named):
    """Those of the tests, as ``file::function``, that are not there."""
    known = {}
    for name in named:
        path = TESTS / name.split("::")[0]
        if path not in known:
            body = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
            known[path] = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    return [name for name in named if name.split("::")[1] not in known[TESTS / name.split("::")[0]]]


def test_every_area_has_a_row_with_all_columns_and_a_test():
    table = rows(PAGE.read_text(encoding="utf-8"))
    assert [row[0] for row in table] == AREAS
    for row in table:
        assert len(row) == 5 and all(row), row
        assert re.findall(r"`[^`]+::test_\w+`", row[4]), row


def test_every_test_that_the_page_names_is_there():
    named = re.findall(r"`([^`]+\.py::\w+)`", PAGE.read_text(encoding="utf-8"))
    assert missing(named) == []


def test_a_test_that_is_not_there_is_found():
    assert missing(["test_compatibility_page.py::test_that_never_was", "no_such_file.py::test_x"]) == [
        "test_compatibility_page.py::test_that_never_was",
        "no_such_file.py::test_x",
    ]
