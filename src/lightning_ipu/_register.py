"""Teaches Trainer what ``accelerator="ipu"`` means. The only file that changes anything in Lightning.

Lightning asks its registries for accelerators and strategies by name, but decides on the strategy and the precision plug-in that go
with an accelerator in fixed code: left alone it answers "ipu" with SingleDeviceStrategy on the CPU, with DDP for two devices, and
with CUDA autocast for "16-mixed". So what the user gave is completed before that code sees it, in one wrapper around the
connector's constructor, and what it decided is checked afterwards. A second wrapper makes `estimated_stepping_batches` count weight
updates, of which one call of the device makes several. A third takes `torch.compile` off a module, whose steps are compiled anyway.
"""

import functools
import importlib.abc
import importlib.machinery
import inspect
import sys
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Sequence, Type

from lightning_ipu import backend
from lightning_ipu._lightning import PACKAGES, Lightning, is_imported, note_trainer_of, own_version
from lightning_ipu.families import Family, family_of

NAME = "ipu"
_CONNECTOR = "trainer.connectors.accelerator_connector"
# Where the Trainer looks at a module that went through torch.compile.
_COMPILE_CHECK = "_verify_strategy_supports_compile"
# Called with each package of Lightning once it is registered.
after_registering: List[Callable[[Lightning], None]] = []
_NEEDED_FLAGS = ("devices", "num_nodes", "accelerator", "strategy", "plugins", "precision")


def install() -> None:
    """Registers with each Lightning package: at once where it is imported already, else when it is."""
    for package in PACKAGES:
        if is_imported(package):
            register(Lightning(package))
    if not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())


def register(lightning: Lightning) -> None:
    """Makes the Trainer of ``lightning`` understand ``accelerator="ipu"`` and ``strategy="ipu"``. A second call changes nothing.

    Raises:
        ImportError: this version of Lightning lacks something that the plug-in hooks into; both versions are named.
    """
    connector = _need(lightning, _CONNECTOR, "_AcceleratorConnector")
    trainer = _need(lightning, "trainer.trainer", "Trainer")
    accelerators = _need(lightning, "accelerators", "AcceleratorRegistry")
    strategies = _need(lightning, "strategies", "StrategyRegistry")
    _need(lightning, "strategies", "ParallelStrategy")
    if getattr(connector.__init__, "_completes_ipu_flags", False):
        return
    missing = [flag for flag in _NEEDED_FLAGS if flag not in inspect.signature(connector.__init__).parameters]
    if missing:
        raise _moved(lightning, f"the flag(s) {', '.join(missing)} of _AcceleratorConnector")
    estimate = getattr(trainer, "estimated_stepping_batches", None)
    if not isinstance(estimate, property):
        raise _moved(lightning, "the property Trainer.estimated_stepping_batches")

    family = family_of(lightning)
    accelerators.register(NAME, family.accelerator, description="Graphcore IPU, or the software IPU", override=True)
    strategies.register(NAME, family.strategy, description="Compiled steps on IPUs", override=True)
    connector.__init__ = _completing(connector.__init__, family)
    trainer.estimated_stepping_batches = _counting_updates(estimate, family)
    module = lightning.module("trainer.trainer")
    if hasattr(module, _COMPILE_CHECK):
        setattr(module, _COMPILE_CHECK, _uncompiling(getattr(module, _COMPILE_CHECK), family))
    for hook in after_registering:
        hook(lightning)


def _need(lightning: Lightning, path: str, name: str) -> Any:
    try:
        return lightning.name(path, name)
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith(lightning.package.split(".")[0]):
            raise  # something that Lightning itself needs
        raise _moved(lightning, f"{path}.{name}") from error


def _moved(lightning: Lightning, what: str) -> ImportError:
    return ImportError(
        f"lightning-ipu {own_version()} cannot hook into {lightning.distribution} {lightning.version}: it has no {what}. "
        f"Nothing was registered, because accelerator='ipu' would quietly train on the CPU. Use a {lightning.distribution} "
        "from 2.0 on that has it, or a newer lightning-ipu."
    )


def _completing(original: Callable[..., None], family: Family) -> Callable[..., None]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        note_trainer_of(family.lightning.package)
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        flags = {name: value for name, value in bound.arguments.items() if name != "self"}
        if not asks_for_ipu(flags):
            original(self, *args, **kwargs)
            if backend.hardware_is_attached():
                # As Lightning says it of a GPU or a TPU.
                family.lightning.warn("IPU available but not used. You can set it by doing `Trainer(accelerator='ipu')`.")
            return
        original(self, **completed_flags(flags, family))
        _check_decision(self, family)

    __init__._completes_ipu_flags = True  # type: ignore[attr-defined]
    return __init__


def asks_for_ipu(flags: Dict[str, Any]) -> bool:
    """Whether the accelerator or the strategy that the user gave is the plug-in's."""
    from lightning_ipu.accelerator import AcceleratorBody
    from lightning_ipu.strategy import StrategyBody

    strategy = flags["strategy"]
    named = isinstance(strategy, str) and strategy.lower() == NAME
    return flags["accelerator"] == NAME or isinstance(flags["accelerator"], AcceleratorBody) or named or isinstance(strategy, StrategyBody)


def completed_flags(flags: Dict[str, Any], family: Family) -> Dict[str, Any]:
    """The same flags with everything decided that Lightning would decide wrongly: accelerator, strategy object, precision plug-in.

    Raises:
        MisconfigurationException: flags that cannot go together on an IPU, or a number of devices that IPUs do not come in.
        ValueError: a precision that an IPU does not have.
    """
    flags = dict(flags)
    flags["accelerator"] = _accelerator(flags["accelerator"], family)
    flags["strategy"] = _strategy(flags["strategy"], family)
    if flags["devices"] != "auto":
        flags["devices"] = family.accelerator.parse_devices(flags["devices"])
    if flags["num_nodes"] != 1:
        raise family.lightning.misconfiguration(
            f"Trainer(accelerator='ipu', num_nodes={flags['num_nodes']!r}): a Trainer drives the IPUs of one host process. "
            "Use num_nodes=1 and give the number of IPUs as devices."
        )
    plugins = flags["plugins"]
    others = [] if plugins is None else list(plugins) if isinstance(plugins, (list, tuple, set)) else [plugins]
    flags["plugins"], flags["precision"] = _with_precision(others, flags["precision"], family), None
    return flags


def _accelerator(given: Any, family: Family) -> Any:
    from lightning_ipu.accelerator import AcceleratorBody

    if isinstance(given, AcceleratorBody):
        return given if isinstance(given, family.accelerator) else family.accelerator()
    if given in ("auto", NAME):
        return NAME
    raise family.lightning.misconfiguration(
        f"Trainer(accelerator={given!r}) was given an IPU strategy. Allowed with it: accelerator='ipu', 'auto' or an IPUAccelerator."
    )


def _strategy(given: Any, family: Family) -> Any:
    from lightning_ipu.strategy import StrategyBody

    if isinstance(given, StrategyBody):
        # One made for the other package's Trainer is made again from the same arguments; one that served another Trainer starts afresh.
        return given.released() if isinstance(given, family.strategy) else family.strategy(**given.arguments)
    if isinstance(given, str) and given.lower() in ("auto", NAME):
        return family.strategy()
    raise family.lightning.misconfiguration(
        f"Trainer(accelerator='ipu', strategy={given!r}): IPUs are driven by IPUStrategy alone; replicas come from devices=N. "
        "Allowed: strategy='auto', 'ipu' or IPUStrategy(...)."
    )


def _with_precision(plugins: List[Any], precision: Any, family: Family) -> List[Any]:
    from lightning_ipu.precision import PrecisionBody

    parent: Type[Any] = family.lightning.name("plugins.precision", "Precision")
    given = [plugin for plugin in plugins if isinstance(plugin, (parent, PrecisionBody))]
    others = [plugin for plugin in plugins if not isinstance(plugin, (parent, PrecisionBody))]
    if not given:
        return [*others, family.precision(precision if precision is not None else "32-true")]
    foreign = [plugin for plugin in given if not isinstance(plugin, PrecisionBody)]
    if foreign or len(given) > 1 or precision is not None:
        raise family.lightning.misconfiguration(
            f"Trainer(accelerator='ipu', precision={precision!r}, plugins={given!r}): give one of precision=... and one IPUPrecision "
            "in plugins; other precision plug-ins cast on other devices."
        )
    own = given[0] if isinstance(given[0], family.precision) else family.precision(given[0].precision)
    return [*others, own]


def _check_decision(connector: Any, family: Family) -> None:
    decided = {"accelerator": connector.accelerator, "strategy": connector.strategy, "precision": connector.precision_plugin}
    wrong = [f"{type(got).__name__} as {role}" for role, got in decided.items() if not isinstance(got, getattr(family, role))]
    if wrong:
        raise RuntimeError(
            f"Asked for accelerator='ipu', {family.lightning.distribution} {family.lightning.version} chose {', '.join(wrong)}; "
            f"lightning-ipu {own_version()} does not know this version's rules. Report it, and use an earlier version meanwhile."
        )


def _counting_updates(original: property, family: Family) -> property:
    def estimated_stepping_batches(self: Any) -> Any:
        assert original.fget is not None
        batches = original.fget(self)
        return self.strategy.estimated_updates(batches) if isinstance(self.strategy, family.strategy) else batches

    return property(functools.wraps(original.fget or estimated_stepping_batches)(estimated_stepping_batches), doc=original.__doc__)


def _uncompiling(original: Callable[..., None], family: Family) -> Callable[..., None]:
    @functools.wraps(original)
    def check(model: Any, strategy: Any) -> None:
        if isinstance(strategy, family.strategy) and getattr(model, "_compiler_ctx", None) is not None:
            family.lightning.name("utilities.compile", "to_uncompiled")(model)
        original(model, strategy)

    return check


class _AfterImport(importlib.abc.MetaPathFinder):
    """Registers with a Lightning package as soon as its import is complete."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in PACKAGES:
            return None
        for finder in sys.meta_path:
            spec = None if isinstance(finder, _AfterImport) else finder.find_spec(fullname, path, target)
            if spec is not None:
                return _then_register(spec)
        return None


def _then_register(spec: importlib.machinery.ModuleSpec) -> importlib.machinery.ModuleSpec:
    loader: Any = spec.loader
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        register(Lightning(spec.name))

    loader.exec_module = exec_module
    return spec
