"""The compiled engine: a graph becomes C++ kernels and a short Python program that calls them."""

import contextlib
import functools
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.fx import GraphModule

from softipu.capture import _torch_private
from softipu.capture._torch_private import backend_source, forget_compile_workers, kernel_files, load_backend_source, load_kernel
from softipu.capture.update.kernels import has_fused
from softipu.errors import first_line
from softipu.graph.aliases import storage_key
from softipu.graph.python_calls import needs_interpreter
from softipu.passes.exact import dead_code
from softipu.runtime.compiled.cache import Build, ProgramCache, place_of
from softipu.runtime.compiled.child import ChildFailed, ChildHangs, can_fork, in_child
from softipu.runtime.compiled.compiler import compiler_version, find_compiler, processor_features
from softipu.runtime.compiled.functional import constants_of, functional
from softipu.runtime.compiled.graph_text import constant_text, digest, graph_text
from softipu.runtime.compiled.instruction_checks import checked_instructions
from softipu.runtime.compiled.light_program import lighten, run_light
from softipu.runtime.compiled.progress import progress_line
from softipu.runtime.compiled.scalars import Stage, split_scalars
from softipu.runtime.engine import CannotCompile, EngineSettings, Function
from softipu.runtime.interpreter import compile_graph

_KERNELS = {"Adam": "_fused_adam_", "AdamW": "_fused_adamw_", "SGD": "_fused_sgd_"}  # PyTorch's own, by update rule
_FEW_NODES = 12  # a graph of so few has one or two kernels, and to compile headers in advance takes as long as three kernels
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
        self._n_threads = torch.get_num_threads()

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
        constants = constants_of(graph_module)
        key = digest([graph_text(graph_module, [*examples]), *map(constant_text, constants), *self._surroundings()])
        try:
            programs = self._kept(key) or self._built_apart(key, graph_module, examples, title)
        except Exception as error:  # whatever goes wrong in a compiler: the interpreter runs the graph
            kind = "" if isinstance(error, ChildFailed) else f"{type(error).__name__}: "
            raise CannotCompile(f"the {title} could not be compiled: {kind}{first_line(error)}") from error
        return _chained(programs, constants) if len(programs) > 1 else _Checked(programs[0].call, constants, graph_module)

    def _kept(self, key: str) -> Optional[List["_Program"]]:
        """The programs of a graph from the cache; None if one is missing."""
        first = self._cache.find(_of_stage(key, 0))
        if first is None:
            return None
        others = [self._cache.find(_of_stage(key, i)) for i in range(1, int(first.details["n_stages"]))]
        builds = [build for build in [first, *others] if build is not None]
        if len(builds) < 1 + len(others):
            return None
        try:
            return [_Program(self._loaded(build), tuple(build.details["inputs"])) for build in builds]
        except (OSError, ImportError):  # another process removed the oldest builds just now
            return None

    def _loaded(self, build: Build) -> Call:
        if build.details["kernels"] is None:
            return load_backend_source(build.program, build.path, self._settings(build.folder), build.instructions)[0]
        kernels = {name: load_kernel(str(build.folder / place)) for name, place in build.details["kernels"].items()}
        return run_light(build.program, build.path, kernels)

    def _built_apart(self, key: str, graph_module: GraphModule, examples: Sequence[torch.Tensor], title: str) -> List["_Program"]:
        """Compiles in another process, which takes the compiler's modules and memory with it when it ends."""
        if can_fork():
            with progress_line(title, shown=self._shown), contextlib.suppress(ChildHangs):  # then it is done here
                in_child(lambda: self._build_as_child(key, graph_module, examples, title))
        # Nothing is kept where the disk takes no more: then this process has to do it.
        return self._kept(key) or self._built(key, graph_module, examples, title)

    def _build_as_child(self, key: str, graph_module: GraphModule, examples: Sequence[torch.Tensor], title: str) -> None:
        self._shown = False
        forget_compile_workers()
        self._built(key, graph_module, examples, title)

    def _built(self, key: str, graph_module: GraphModule, examples: Sequence[torch.Tensor], title: str) -> List["_Program"]:
        stages = split_scalars(functional(graph_module, examples))
        numbered = [f"{title} ({i + 1} of {len(stages)})" if len(stages) > 1 else title for i in range(len(stages))]
        programs = []
        for i, (stage, name) in enumerate(zip(stages, numbered)):
            details = {"n_stages": len(stages), "inputs": list(stage.inputs)}
            programs.append(_Program(self._build(_of_stage(key, i), stage, name, details), stage.inputs))
        return programs

    def _build(self, key: str, stage: Stage, title: str, details: Dict[str, Any]) -> Call:
        folder = self._cache.new_folder(key)
        is_small = len(stage.part.graph_module.graph.nodes) <= _FEW_NODES
        settings = {**self._settings(folder), "cpp_cache_precompile_headers": not is_small}
        with progress_line(title, shown=self._shown):
            instructions = checked_instructions(self._cache, digest(["instructions", *self._surroundings()]), folder, settings)
            source = backend_source(stage.part.graph_module, stage.part.fakes, stage.part.mode, settings)
            call, scope = load_backend_source(source, str(folder / "program.py"), settings)
        kernels = kernel_files(scope)
        light = lighten(source, scope, kernels)
        places = {name: place_of(Path(file)) for name, file in kernels.items()} if light is not None else None
        self._cache.keep(key, folder, light or source, sorted({*kernels.values()}), instructions, {**details, "kernels": places})
        return call

    def _settings(self, folder: Path) -> Dict[str, Any]:
        return {
            "cache_dir": str(folder),
            "cpp.cxx": (self._compiler,),
            "cpp.threads": self._n_threads,  # a child that compiles has one itself
            "fx_graph_cache": False,  # Inductor's own cache unpickles what it finds
            "fx_graph_remote_cache": False,
            "compile_threads": 1 if self._n_threads == 1 else 2,
            "size_asserts": False,  # the program checks shapes once, before the first call
            "nan_asserts": False,
        }

    def _surroundings(self) -> List[str]:
        return [
            _own_code(),
            torch.__version__,
            str(torch.version.git_version),
            platform.python_version(),
            platform.machine(),
            processor_features(),
            self._compiler,  # Inductor finds its kernels by the command that compiles them
            compiler_version(self._compiler),
            str(self._n_threads),
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


@dataclass(frozen=True)
class _Program:
    """One of a chain.

    Attributes:
        call: takes a list.
        inputs: which inputs and constants of the graph it takes, before what the program before it returned.
    """

    call: Call
    inputs: Tuple[int, ...]


def _chained(programs: List[_Program], constants: List[torch.Tensor]) -> Function:
    numbers, tensors = programs
    taken = numbers.inputs

    def run(*inputs: Any) -> Sequence[Any]:
        given = [*inputs, *constants]
        return tensors.call([*given, *numbers.call([given[i] for i in taken])])

    return run


def _of_stage(key: str, number: int) -> str:
    return digest([key, str(number)])


@functools.lru_cache(maxsize=None)
def _own_code() -> str:
    """Of the modules that make programs: what another version of them made is not used."""
    files = [*Path(__file__).parent.glob("*.py"), Path(_torch_private.__file__), Path(dead_code.__file__)]
    return digest(file.read_text(encoding="utf-8") for file in sorted(files))
