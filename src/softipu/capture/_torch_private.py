"""Everything that softipu takes from PyTorch's private modules, in one place.

Each name says what it is used for and on which versions it was checked.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import io
import logging
import os
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch
from torch._subclasses.fake_tensor import (  # checked on 2.0.1 and 2.13
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx.experimental.proxy_tensor import (  # checked on 2.0.1 and 2.13
    disable_proxy_modes_tracing,
    get_innermost_proxy_mode,
    get_proxy_slot,
    make_fx,
    track_tensor_tree,
)
from torch.utils._mode_utils import no_dispatch  # checked on 2.0.1 and 2.13

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "add_call",
    "backend_source",
    "backend_decompositions",
    "disable_torch_function",
    "fake_kernel",
    "fake_of_dtype",
    "fallback_kernel",
    "forget_compile_workers",
    "eagerly",
    "graph_being_traced",
    "is_traced",
    "kernel_files",
    "load_kernel",
    "load_backend_source",
    "native_function",
    "node_of",
    "not_traced",
    "new_fake_mode",
    "raw_op",
    "run_below_autograd",
    "trace",
    "version_of",
    "without_vmap_fallback",
]

# Keeps a subclass's __torch_function__ from being called again inside itself. Checked on 2.0.1 and 2.13.
disable_torch_function = torch._C.DisableTorchFunctionSubclass


def run_below_autograd(function: Callable[..., Any], arguments: Tuple[Any, ...]) -> Any:
    """``function(*arguments)`` beneath autograd's dispatch keys: no tape, no history on results.

    The guard holds while the object lives; 2.0.1 knows no other form. Checked on 2.0.1 and 2.13.
    """
    guard = torch._C._AutoDispatchBelowAutograd()
    try:
        return function(*arguments)
    finally:
        del guard


def new_fake_mode() -> FakeTensorMode:
    """A mode whose tensors have fixed shapes and no values: what depends on data raises, as it cannot be compiled."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def trace(
    function: Callable[..., Any], fake_mode: FakeTensorMode, *fakes: Any, decompositions: Optional[Mapping[Any, Callable[..., Any]]] = None
) -> torch.fx.GraphModule:
    """ATen graph of ``function`` run once on ``fakes``, tensors of ``fake_mode``.

    Tensors that the function reads without taking them as arguments become constants of the graph; ops in ``decompositions``
    are written down as the ops that their functions call. Checked on 2.0.1 and 2.13.
    """
    with fake_mode, _without_dynamo(), _code_when_called():
        return make_fx(function, decomposition_table=decompositions)(*fakes)


@contextmanager
def _without_dynamo() -> Iterator[None]:
    """What the user gave to ``torch.compile`` runs as it was before: a step is compiled as a whole. Checked on 2.0.1 and 2.13."""
    if "torch._dynamo" not in sys.modules:  # nobody has called torch.compile, and importing it takes long
        yield
        return
    with importlib.import_module("torch._dynamo.config").patch(error_on_nested_fx_trace=False):
        yield


def fake_of_dtype(fake: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A fake tensor like ``fake`` but of another type, in memory of its own: ``fake.to(dtype)`` without its way through the dispatcher.

    Checked on 2.0.1 and 2.13.
    """
    with disable_torch_function():
        values, one_by_one = fake.stride(), fake.numel() == fake.untyped_storage().nbytes() // max(1, fake.element_size())
        if not isinstance(fake, FakeTensor) or not one_by_one or get_innermost_proxy_mode() is not None:
            return fake.to(dtype)
        made: torch.Tensor = FakeTensor(fake.fake_mode, torch.empty_strided(fake.shape, values, dtype=dtype, device="meta"), fake.device)
        return made


@contextmanager
def _code_when_called() -> Iterator[None]:
    """A graph module writes its Python code when it is called, not whenever its graph changes. 2.0.1 cannot; checked on 2.13."""
    if importlib.util.find_spec("torch.fx._lazy_graph_module") is None:
        yield
        return
    with importlib.import_module("torch.fx._lazy_graph_module")._use_lazy_graph_module(True):
        yield


def fake_kernel(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers ``kernel(fake_mode, overload, *args, **kwargs)`` for fake tensors, in place of PyTorch's own.

    Checked on 2.0.1, which takes the first that fits of a list, and on 2.13, which has a table.
    """
    from torch._subclasses import fake_tensor

    def register(kernel: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            if hasattr(fake_tensor, "register_op_impl"):
                fake_tensor.register_op_impl(overload)(kernel)
                fake_tensor.op_implementations.insert(0, fake_tensor.op_implementations.pop())
            else:
                from torch._subclasses.fake_impls import register_op_impl

                register_op_impl(overload)(kernel)
        return kernel

    return register


def fallback_kernel(fake_mode: Any, overload: Any, args: Tuple[Any, ...], kwargs: Any) -> Any:
    """Fake results of an op that has no shape function: those of the op itself on zeros. For 2.0.1 only, checked there."""
    from torch._subclasses.fake_tensor import run_fallback_kernel

    return run_fallback_kernel(fake_mode, overload, args, kwargs, NotImplementedError(str(overload)))


def graph_being_traced() -> Optional[torch.fx.Graph]:
    """The graph that ``trace`` is writing now, or None outside it. Checked on 2.0.1 and 2.13."""
    mode = get_innermost_proxy_mode()
    return None if mode is None else mode.tracer.graph


def not_traced() -> Any:
    """A context in which the running ``trace`` writes nothing down. Checked on 2.0.1 and 2.13."""
    return disable_proxy_modes_tracing()


@contextmanager
def eagerly() -> Iterator[None]:
    """PyTorch as it is without any trace, fake tensors or function modes. Checked on 2.0.1 and 2.13."""
    with no_dispatch(), torch._C.DisableTorchFunction():
        yield


def node_of(tensor: torch.Tensor) -> Optional[torch.fx.Node]:
    """The node of the running ``trace`` that makes ``tensor``; None for a tensor from outside. Checked on 2.0.1 and 2.13."""
    mode = get_innermost_proxy_mode()
    found = None if mode is None else get_proxy_slot(tensor, mode.tracer, None, lambda entry: entry.proxy)
    return None if found is None else found.node


def add_call(target: Callable[..., Any], args: Tuple[Any, ...], results: Any) -> Any:
    """Writes a call of ``target`` into the running ``trace``.

    Args:
        target: what the node calls; its results are never looked at while tracing.
        args: numbers, strings, tensors or nodes of the trace; tensors from outside become constants.
        results: new fake tensors like those that the call returns, one or a tuple. Checked on 2.0.1 and 2.13.

    Returns:
        ``results``, which stand for what the node returns from now on.
    """
    mode = get_innermost_proxy_mode()
    assert mode is not None, "There is no trace to add a call to."
    tracer = mode.tracer

    def proxy(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return get_proxy_slot(value, tracer, value, lambda entry: entry.proxy)
        return torch.fx.Proxy(value, tracer) if isinstance(value, torch.fx.Node) else value

    called = tracer.create_proxy("call_function", target, tuple(proxy(a) for a in args), {})
    return track_tensor_tree(results, called, constant=None, tracer=tracer)


def is_traced(value: Any) -> bool:
    """Whether ``value`` stands for a tensor on the device while a step is captured."""
    return isinstance(value, FakeTensor)


def version_of(tensor: torch.Tensor) -> int:
    """In-place edits that ``tensor`` has seen; read from the base class so that no subclass hook runs."""
    return torch._C._TensorBase._version.__get__(tensor)  # type: ignore[attr-defined]


def raw_op(overload: Any) -> Callable[..., Any]:
    """The C++ callable beneath an OpOverload, without its Python layer. Checked on 2.0.1 and 2.13."""
    return getattr(overload, "_op", overload)


def native_function(name: str) -> Tuple[Any, Any]:
    """PyTorch's own Python bindings of an ATen function: (as a function, as a tensor method), None where there is none."""
    return getattr(torch._C._VariableFunctions, name, None), getattr(torch._C._TensorBase, name, None)


@contextmanager
def without_vmap_fallback() -> Iterator[None]:
    """torch.func.vmap raises for an op that it has no rule for, instead of calling it row by row. Checked on 2.0.1 and 2.13."""
    functorch = torch._C._functorch
    before = functorch._is_vmap_fallback_enabled()
    functorch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        functorch._set_vmap_fallback_enabled(before)


@contextmanager
def quiet_fakes() -> Iterator[None]:
    """Fake tensors write no traceback to the console for an op that they cannot run: whoever tries an op handles its error. On 2.13; 2.0.1
    writes none."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


# Inductor, PyTorch's compiler to C++. Imported when first used: it takes more than a second.


def backend_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Inductor's own list of ops that it wants as smaller ones. Checked on 2.0.1 and 2.13."""
    _inductor("lowering")  # the decomposition of pooling takes it for imported
    return _inductor("decomposition").select_decomp_table()


def backend_source(
    graph_module: torch.fx.GraphModule, fakes: Sequence[torch.Tensor], fake_mode: FakeTensorMode, settings: Mapping[str, Any]
) -> str:
    """The Python program that Inductor makes of a functional ATen graph; its C++ kernels are compiled on the way.

    Args:
        graph_module: no in-place ops but a ``copy_`` into an input at the end. It may be changed.
        fakes: its inputs, tensors of ``fake_mode``.
        settings: of Inductor; those that this version does not have are left out.

    Checked on 2.0.1 and 2.13.
    """
    compiler, virtualized = _inductor("compile_fx"), _inductor("virtualized")
    (output,) = [n for n in graph_module.graph.nodes if n.op == "output"]
    output.meta["user_visible_output_idxs"] = list(range(len(output.args[0])))  # keeps the strides of results; newer versions
    _keep_strides_of_kernels(graph_module)
    with _inductor_settings(settings), _no_flags_for_the_process(), virtualized.V.set_fake_mode(fake_mode), torch.no_grad():
        compiled = compiler.compile_fx_inner(graph_module, list(fakes))
    source = getattr(compiled, "source_code", None)  # newer versions
    if source is None:
        with open(compiled.__globals__["__file__"], encoding="utf-8") as file:
            source = file.read()
    return source


def _keep_strides_of_kernels(graph_module: torch.fx.GraphModule) -> None:
    """Kernels of PyTorch that Inductor only calls get their inputs in the strides that the graph has.

    2.0 gives them what it finds good; some kernels rely on contiguous inputs. Newer versions do this themselves. Checked on 2.0.1.
    """
    if not torch.__version__.startswith("2.0."):
        return
    lowering = _inductor("lowering")
    for node in graph_module.graph.nodes:
        is_kernel = node.op == "call_function" and hasattr(node.target, "_schema")
        if is_kernel and (node.target in lowering.fallbacks or node.target not in lowering.lowerings):
            lowering.layout_constraints.setdefault(node.target, lowering.constrain_to_fx_strides)


def load_backend_source(
    source: str, path: str, settings: Mapping[str, Any], instructions: Optional[Sequence[str]] = None
) -> Tuple[Callable[[List[Any]], Sequence[Any]], Dict[str, Any]]:
    """The callable of a program from ``backend_source``, and its globals. It takes its inputs as one list, which it empties.

    Kernels that are missing are compiled. ``instructions``, from ``vector_instructions``, saves the test of what this processor has, for
    which Inductor compiles a program and starts a process. Checked on 2.0.1 and 2.13.
    """
    scope: Dict[str, Any] = {"__name__": "softipu_program", "__file__": path}
    with _inductor_settings(settings), _no_flags_for_the_process(), _vector_instructions_are(instructions):
        exec(compile(source, path, "exec"), scope)  # noqa: S102 - written by this user's own compiler, and signed
    return scope["call"], scope


# What -ffast-math means for a kernel's own code. As one flag it also links code that rounds small numbers to 0 in the whole process.
_FAST_MATH = "-fno-math-errno -fno-signed-zeros -fno-trapping-math -fassociative-math -freciprocal-math -fcx-limited-range"


@contextmanager
def _no_flags_for_the_process() -> Iterator[None]:
    """Kernels are compiled so that loading them leaves the process's arithmetic alone. 2.0.1 needs it; 2.13 does it itself."""
    codecache = _inductor("codecache")
    original = getattr(codecache, "optimization_flags", None)
    if original is None or "-ffast-math" not in original() or "-fno-unsafe-math-optimizations" in original():
        yield
        return
    codecache.optimization_flags = lambda: original().replace("-ffast-math", _FAST_MATH)
    try:
        yield
    finally:
        codecache.optimization_flags = original


def vector_instructions(settings: Mapping[str, Any]) -> List[str]:
    """Vector instructions that Inductor finds that this machine can compile and run, best first. Checked on 2.0.1 and 2.13."""
    with _inductor_settings(settings), _no_flags_for_the_process():
        return [str(instructions) for instructions in _vector_module().valid_vec_isa_list()]


@contextmanager
def _vector_instructions_are(names: Optional[Sequence[str]]) -> Iterator[None]:
    module = _vector_module()
    known = {str(one): one for one in module.supported_vec_isa_list}
    if names is None or not all(name in known for name in names):
        yield
        return
    original = module.valid_vec_isa_list
    module.valid_vec_isa_list = lambda: [known[name] for name in names]
    try:
        yield
    finally:
        module.valid_vec_isa_list = original


def _vector_module() -> Any:
    return _inductor("codecache" if importlib.util.find_spec("torch._inductor.cpu_vec_isa") is None else "cpu_vec_isa")


def kernel_files(scope: Mapping[str, Any]) -> Dict[str, str]:
    """Shared libraries that a loaded program calls, by the names that it has for their functions.

    Checked on 2.0.1 (ctypes functions) and 2.13 (extension modules).
    """
    codecache = _inductor("codecache")
    libraries = [library for library in codecache.CppCodeCache.cache.values() if hasattr(library, "_name")]
    found: Dict[str, str] = {}
    for name, value in scope.items():
        module = getattr(value, "__self__", None)
        if isinstance(module, ModuleType) and getattr(module, "__file__", None):
            found[name] = str(module.__file__)
        for library in libraries:
            if any(value is f for f in vars(library).values()):
                found[name] = str(library._name)
    return found


def load_kernel(file: str) -> Any:
    """The function of a shared library that Inductor compiled. Checked on 2.0.1 (for ctypes) and 2.13 (a module of its own)."""
    address = getattr(torch._C._dynamo.guards, "_torchinductor_pyobject_tensor_data_ptr", None)
    if address is None:
        return ctypes.CDLL(file).kernel
    os.environ["_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"] = str(address)  # where the library looks for it
    spec = importlib.util.spec_from_file_location(f"{os.path.basename(file)}.kernel", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def forget_compile_workers() -> None:
    """For a process that was forked: threads and processes that its parent compiles with are not its own. Checked on 2.0.1 and 2.13."""
    owner = getattr(_inductor("codecache" if torch.__version__.startswith("2.0.") else "async_compile"), "AsyncCompile", None)
    for name in ("pool", "process_pool"):
        clear = getattr(getattr(owner, name, None), "cache_clear", None)
        if clear is not None:
            clear()


def _inductor(name: str) -> Any:
    # 2.0.1 says that it found no CUDA, and starts processes, when it is imported.
    with contextlib.redirect_stderr(io.StringIO()), _inductor_settings({"compile_threads": 1}):
        return importlib.import_module(f"torch._inductor.{name}")


def _import_config() -> Any:
    return importlib.import_module("torch._inductor.config")


@contextmanager
def _inductor_settings(settings: Mapping[str, Any]) -> Iterator[None]:
    """Inductor's configuration with ``settings``, whose names may have a dot; put back afterwards.

    ``cache_dir`` is the folder of compiled kernels. Checked on 2.0.1 and 2.13.
    """
    config = _import_config()
    before: List[Tuple[Any, str, Any]] = []
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    for name, value in settings.items():
        owner, _, last = name.rpartition(".")
        holder = getattr(config, owner, None) if owner else config
        if hasattr(holder, last):
            before.append((holder, last, getattr(holder, last)))
            setattr(holder, last, value)
    if "cache_dir" in settings:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(settings["cache_dir"])
    try:
        yield
    finally:
        for holder, last, value in reversed(before):
            setattr(holder, last, value)
        if folder is None:
            os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
