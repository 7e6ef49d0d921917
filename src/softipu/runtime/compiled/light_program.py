"""Programs that run without their compiler.

What Inductor writes imports Inductor, for kernels that it names in the program and for PyTorch's products, and that takes more than a
second and some fifty MiB. Where a program's kernels are compiled already, it needs neither.
"""

import ast
from typing import Any, Dict, List, Mapping, Optional, Set

import torch

_PRODUCTS = "extern_kernels"  # Inductor's name for PyTorch's products and convolutions
_COMPILER = "torch._inductor"
_NOT_CALLED = ("get_args", "benchmark_compiled_module")  # what Inductor writes for its own benchmarks


def lighten(source: str, scope: Mapping[str, Any], kernels: Mapping[str, str]) -> Optional[str]:
    """A program without what only its compiler needs; None if it uses more of the compiler than can be given.

    Args:
        source: as Inductor wrote it.
        scope: its globals, loaded.
        kernels: names of those that are compiled kernels.
    """
    tree = ast.parse(source)
    imported: Set[str] = set()
    kept: List[ast.stmt] = []
    dropped: Set[int] = set()
    for statement in tree.body:
        names = _compiler_imports(statement)
        if names:
            imported |= names
        if names or _is_for_the_compiler(statement, kernels):
            dropped.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        else:
            kept.append(statement)
    used = {node.id for statement in kept for node in ast.walk(statement) if isinstance(node, ast.Name)}
    if used & (imported - {_PRODUCTS}):
        return None
    for product in _products(kept):
        if not _is_ours(product, getattr(scope.get(_PRODUCTS), product, None)):
            return None
    return "\n".join("" if number in dropped else line for number, line in enumerate(source.splitlines(), 1)) + "\n"


def run_light(program: str, path: str, kernels: Mapping[str, Any]) -> Any:
    """The ``call`` of a program from ``lighten``.

    Args:
        program: its text.
        path: named in tracebacks.
        kernels: the compiled ones, loaded, by name.
    """
    scope: Dict[str, Any] = {"__name__": "softipu_program", "__file__": path, _PRODUCTS: _Products(), **kernels}
    exec(compile(program, path, "exec"), scope)  # noqa: S102 - written by this user's own compiler, and signed
    return scope["call"]


class _Products:
    """What programs call of PyTorch under Inductor's names."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def bias_addmm(bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor, **rest: Any) -> torch.Tensor:
        """addmm with a bias of one row that was expanded to all."""
        one_row = bias.shape[0] == 1 or (bias.shape[0] > 0 and bias.stride(0) == 0)
        return torch.addmm(bias[0] if one_row else bias, left, right, **rest)


def _compiler_imports(statement: ast.stmt) -> Set[str]:
    if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(_COMPILER):
        return {alias.asname or alias.name for alias in statement.names}
    return set()


def _is_for_the_compiler(statement: ast.stmt, kernels: Mapping[str, str]) -> bool:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id == "async_compile" or statement.targets[0].id in kernels
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return ast.dump(statement.value.func).startswith("Attribute(value=Name(id='async_compile'")
    if isinstance(statement, ast.Delete):
        return [ast.dump(target)[:24] for target in statement.targets] == ["Name(id='async_compile',"]
    if isinstance(statement, ast.FunctionDef):
        return statement.name in _NOT_CALLED
    return isinstance(statement, ast.If)  # if __name__ == "__main__"


def _products(statements: List[ast.stmt]) -> Set[str]:
    return {
        node.attr
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == _PRODUCTS
    }


def _is_ours(name: str, kernel: Any) -> bool:
    """Whether ``_Products`` has the same under that name."""
    return kernel is not None and (kernel is getattr(torch, name, None) or name in vars(_Products))
