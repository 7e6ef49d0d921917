"""The compiled engine: a graph becomes C++ kernels and a short Python program that calls them."""

import platform
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from torch.fx import GraphModule

from softipu.capture._torch_private import backend_source, kernel_files, load_backend_source, vector_instructions
from softipu.capture.update.kernels import has_fused
from softipu.errors import first_line
from softipu.graph.aliases import storage_key
from softipu.graph.python_calls import needs_interpreter
from softipu.runtime.compiled.cache import ProgramCache
from softipu.runtime.compiled.compiler import compiler_version, find_compiler, processor_features
from softipu.runtime.compiled.functional import Functional, functional
from softipu.runtime.compiled.graph_text import digest, graph_text
from softipu.runtime.compiled.progress import progress_line
from softipu.runtime.compiled.scalars import Stage, split_scalars
from softipu.runtime.engine import CannotCompile, EngineSettings, Function
from softipu.runtime.interpreter import compile_graph

_FORMAT = "3"  # of what is kept on disk
_KERNELS = {"Adam": "_fused_adam_", "AdamW": "_fused_adamw_", "SGD": "_fused_sgd_"}  # PyTorch's own, by update rule
Call = Callable[[List[Any]], Sequence[Any]]


class CompiledEngine:
    """Graphs through Inductor.

    Raises:
        CannotCompile: no C++ compiler.
    """

    name = "compiled"

    def __init__(self, settings: EngineSettings = EngineSettings()) -> None:  # noqa: B008 - frozen
        self._compiler = find_compiler()
        self._cache = ProgramCache(settings.cache_dir)
        self._shown = settings.show_progress

    def update_form(self, rule: str) -> str:
        """PyTorch's own fused kernel where this version has one for the CPU: nothing that Inductor writes is faster."""
        kernel = _KERNELS.get(rule)
        return "fused" if kernel is not None and has_fused(kernel) else "elementwise"

    def compile(self, graph_module: GraphModule, examples: Sequence[Any], title: str) -> Function:
        """A compiled function; a graph that takes Python numbers is interpreted, since Inductor would make them constants.

        Raises:
            CannotCompile: a graph with Python calls, or one that Inductor or the C++ compiler fails on.
        """
        if not all(isinstance(e, torch.Tensor) for e in examples):
            return compile_graph(graph_module)
        if needs_interpreter(graph_module):
            raise CannotCompile(f"the {title} has calls of Python (printing, host callbacks, loops) in it, which only the interpreter runs")
        try:
            lowered = functional(graph_module, examples)
            stages = split_scalars(lowered)
            calls = [
                self._program(stage.part, f"{title} ({i + 1} of {len(stages)})" if len(stages) > 1 else title)
                for i, stage in enumerate(stages)
            ]
        except Exception as error:  # whatever goes wrong in a compiler: the interpreter runs the graph
            raise CannotCompile(f"the {title} could not be compiled: {type(error).__name__}: {first_line(error)}") from error
        return _chained(stages, calls, lowered.constants) if len(stages) > 1 else _Checked(calls[0], lowered.constants, graph_module)

    def _program(self, lowered: Functional, title: str) -> Call:
        key = digest([graph_text(lowered.graph_module, lowered.fakes), *self._surroundings()])
        known = self._cache.find(key)
        if known is not None:
            return load_backend_source(known.program, known.path, self._settings(known.folder), known.instructions)[0]
        folder = self._cache.new_folder(key)
        settings = self._settings(folder)
        with progress_line(title, shown=self._shown):
            source = backend_source(lowered.graph_module, lowered.fakes, lowered.mode, settings)
            call, scope = load_backend_source(source, str(folder / "program.py"), settings)
            instructions = vector_instructions(settings)
        self._cache.keep(key, folder, source, kernel_files(scope), instructions)
        return call

    def _settings(self, folder: Path) -> Dict[str, Any]:
        return {
            "cache_dir": str(folder),
            "cpp.cxx": (self._compiler,),
            "fx_graph_cache": False,  # Inductor's own cache unpickles what it finds
            "fx_graph_remote_cache": False,
            "compile_threads": 1 if torch.get_num_threads() == 1 else 2,
            "size_asserts": False,  # the program checks shapes once, before the first call
            "nan_asserts": False,
        }

    def _surroundings(self) -> List[str]:
        return [
            _FORMAT,
            torch.__version__,
            str(torch.version.git_version),
            platform.python_version(),
            platform.machine(),
            processor_features(),
            self._compiler,  # Inductor finds its kernels by the command that compiles them
            compiler_version(self._compiler),
            str(torch.get_num_threads()),
        ]


class _Checked:
    """Calls a program; what it returns has the strides that the graph promises, and shares memory only where the graph says so.

    Gradients are accumulated and used up in place, so two of them must not be one tensor. Shapes never change, so the first call tells
    for all.
    """

    def __init__(self, call: Call, constants: List[torch.Tensor], graph_module: GraphModule) -> None:
        self._call, self._constants = call, constants
        (output,) = [n for n in graph_module.graph.nodes if n.op == "output"]
        self._promised = [node.meta.get("val") for node in output.args[0] or ()]
        self._mended: Optional[List[int]] = None  # results that are copied after every call

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        results = self._call([*inputs, *self._constants])
        if self._mended is None:
            self._mended = self._broken(results, inputs)
        if not self._mended:
            return results
        results = list(results)
        for i in self._mended:
            results[i] = torch.empty_strided(results[i].shape, self._promised[i].stride(), dtype=results[i].dtype).copy_(results[i])
        return results

    def _broken(self, results: Sequence[Any], inputs: Sequence[Any]) -> List[int]:
        taken = {t.untyped_storage().data_ptr() for t in inputs if isinstance(t, torch.Tensor)}
        promised = [storage_key(p) for p in self._promised]
        broken = []
        for i, (result, promise) in enumerate(zip(results, self._promised)):
            place = result.untyped_storage().data_ptr()
            if result.stride() != promise.stride() or (place in taken and promised.count(promised[i]) == 1):
                broken.append(i)
            taken.add(place)
        return broken


def _chained(stages: List[Stage], calls: List[Call], constants: List[torch.Tensor]) -> Function:
    numbers, tensors = calls
    taken = stages[0].inputs

    def run(*inputs: Any) -> Sequence[Any]:
        given = [*inputs, *constants]
        return tensors([*given, *numbers([given[i] for i in taken])])

    return run
