"""What import-linter cannot see: names inside an imported package."""

import ast
from pathlib import Path
from typing import Iterator, List, Tuple

import pytest

SRC = Path(__file__).parent.parent / "src"
PRIVATE_TORCH_FILE = SRC / "softipu" / "capture" / "_torch_private.py"
LIGHTNING_FILE = SRC / "lightning_ipu" / "_lightning.py"
LIGHTNING_NAMES = ("lightning", "pytorch_lightning", "lightning_fabric")


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of an attribute chain that starts at a plain name, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        start = dotted(node.value)
        return f"{start}.{node.attr}" if start else ""
    return ""


def names_used(tree: ast.AST) -> Iterator[Tuple[int, str]]:
    """Line and full name of every absolute import and every attribute chain."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute):
            name = dotted(node)
            if name:
                yield node.lineno, name


def private_torch_names(source: str) -> List[Tuple[int, str]]:
    """Uses of ``torch._name``; dunder names such as ``torch.__version__`` are public."""
    found = set()
    for line, name in names_used(ast.parse(source)):
        head, _, rest = name.partition(".")
        if head == "torch" and rest.startswith("_") and not rest.startswith("__"):
            found.add((line, "torch." + rest.split(".")[0]))
    return sorted(found)


def lightning_imports(source: str) -> List[Tuple[int, str]]:
    """Imports of Lightning, under either of its names."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            modules = [node.module]
        else:
            continue
        found.update((node.lineno, module) for module in modules if module.split(".")[0] in LIGHTNING_NAMES)
    return sorted(found)


def offenders(check, allowed: Path) -> List[str]:
    files = sorted(path for path in SRC.rglob("*.py") if path != allowed)
    assert files, f"no source files under {SRC}"
    return [f"{path.relative_to(SRC.parent)}:{line}: {name}" for path in files for line, name in check(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "source",
    [
        "import torch._C",
        "import torch._dynamo.config as config",
        "from torch import _C",
        "from torch._subclasses import FakeTensorMode",
        "import torch\ntorch._C._get_tracing_state()",
        "import torch\nx = torch._foreach_add",
    ],
)
def test_each_spelling_of_a_private_torch_name_is_found(source):
    assert private_torch_names(source)


@pytest.mark.parametrize("source", ["import torch\ntorch.__version__", "import torch\ntorch.ops.aten._softmax.default", "x.torch._C"])
def test_public_torch_names_are_left_alone(source):
    assert private_torch_names(source) == []


def test_lightning_imports_are_found_under_both_names():
    source = "import lightning as L\ndef f():\n    from pytorch_lightning.strategies import Strategy\n"
    assert lightning_imports(source) == [(1, "lightning"), (3, "pytorch_lightning.strategies")]


def test_private_torch_is_used_in_one_file_only():
    assert offenders(private_torch_names, PRIVATE_TORCH_FILE) == []


def test_lightning_is_imported_in_one_file_only():
    assert offenders(lightning_imports, LIGHTNING_FILE) == []
