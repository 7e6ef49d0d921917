"""What Trainer(...) makes of accelerator="ipu", for both Lightning packages and every order of imports."""

import importlib
import subprocess
import sys
import warnings

import pytest
import torch

import lightning_ipu
from lightning_ipu import _register, backend
from lightning_ipu._lightning import PACKAGES, Lightning
from lightning_ipu.families import family_of

QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


@pytest.fixture(params=PACKAGES)
def family(request):
    importlib.import_module(request.param)
    return family_of(Lightning(request.param))


@pytest.fixture
def make(family):
    """``make(**flags)``: a quiet Trainer of the package under test."""
    return lambda **flags: importlib.import_module(family.lightning.package).Trainer(**{**QUIET, **flags})


@pytest.mark.parametrize(
    "flags",
    [
        {"accelerator": "ipu", "devices": 2},
        {"strategy": "ipu", "devices": 2},
        {"accelerator": "ipu", "strategy": "ipu", "devices": "2"},
    ],
    ids=str,
)
def test_trainer_gets_accelerator_strategy_and_precision(make, family, flags):
    trainer = make(**flags)
    assert isinstance(trainer.accelerator, family.accelerator)
    assert isinstance(trainer.strategy, family.strategy)
    assert isinstance(trainer.strategy.precision_plugin, family.precision)
    assert trainer.num_devices == 2
    assert trainer.world_size == 1
    assert trainer.is_global_zero
    assert [d.type for d in trainer.strategy.parallel_devices] == ["ipu", "ipu"]
    assert trainer.strategy.root_device == torch.device("cpu")


def test_objects_and_names_can_be_mixed(make, family):
    for flags in (
        {"accelerator": family.accelerator(), "devices": 2},
        {"strategy": family.strategy(device_iterations=3), "devices": 2},
        {"accelerator": "ipu", "strategy": family.strategy(device_iterations=3), "devices": 2},
        {"accelerator": family.accelerator(), "strategy": family.strategy(device_iterations=3), "devices": 2},
    ):
        trainer = make(**flags)
        assert isinstance(trainer.strategy, family.strategy)
        assert trainer.num_devices == 2


def test_devices_auto_is_one_ipu(make):
    assert make(accelerator="ipu", devices="auto").num_devices == 1


@pytest.mark.parametrize(
    ("given", "name"), [(None, "32-true"), ("32", "32-true"), (16, "16-mixed"), ("16-mixed", "16-mixed"), ("16-true", "16-true")]
)
def test_precision_is_the_plug_ins(make, family, given, name):
    trainer = make(accelerator="ipu", devices=1, precision=given)
    assert type(trainer.strategy.precision_plugin) is family.precision
    assert trainer.precision == name


@pytest.mark.parametrize(
    ("given", "name"), [("bf16-mixed", "bf16-mixed"), ("bf16-true", "bf16-true"), ("64-true", "64-true"), (64, "64-true")]
)
def test_other_precisions_are_refused_by_name(make, given, name):
    with pytest.raises(ValueError, match=f"precision='{name}' is not available with accelerator='ipu'"):
        make(accelerator="ipu", devices=1, precision=given)


def test_precision_plugin_of_another_device_is_refused(make, family):
    other = family.lightning.name("plugins.precision", "HalfPrecision")("16-true")
    with pytest.raises(Exception, match="other precision plug-ins cast on other devices"):
        make(accelerator="ipu", devices=1, plugins=[other])
    trainer = make(accelerator="ipu", devices=1, plugins=[family.precision("16-true")])
    assert trainer.precision == "16-true"


@pytest.mark.parametrize("devices", [3, 0, -1, "3", [0, 1], 128, True])
def test_numbers_of_devices_that_ipus_do_not_come_in_are_refused(make, family, devices):
    misconfiguration = family.lightning.name("utilities.exceptions", "MisconfigurationException")
    with pytest.raises(misconfiguration, match=r"powers of two. Allowed: 1, 2, 4, 8, 16, 32, 64, or 'auto'"):
        make(accelerator="ipu", devices=devices)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"accelerator": "ipu", "strategy": "ddp", "devices": 2}, "driven by IPUStrategy alone"),
        ({"accelerator": "cpu", "strategy": "ipu", "devices": 1}, "was given an IPU strategy"),
        ({"accelerator": "ipu", "devices": 1, "num_nodes": 2}, "Use num_nodes=1"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(make, flags, message):
    with pytest.raises(Exception, match=message):
        make(**flags)


def test_other_accelerators_are_left_alone(make, family):
    trainer = make(accelerator="cpu", devices=1, precision="bf16-mixed")
    assert type(trainer.strategy).__name__ == "SingleDeviceStrategy"
    assert type(trainer.strategy.precision_plugin).__name__ == "MixedPrecision"
    assert make(accelerator="auto", devices=1).accelerator.__class__.__name__ != "IPUAccelerator"


@pytest.mark.parametrize("accelerator", ["cpu", "auto"])
def test_a_trainer_without_ipus_is_told_of_them_where_there_are_some(make, monkeypatch, accelerator):
    monkeypatch.setattr(backend, "hardware_is_attached", lambda: True)
    with pytest.warns(UserWarning, match=r"IPU available but not used.*Trainer\(accelerator='ipu'\)"):
        make(accelerator=accelerator)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="IPU available")
        make(accelerator="ipu")
        monkeypatch.undo()
        make(accelerator=accelerator)


def test_a_strategy_serves_one_trainer_after_another(make, family):
    strategy = family.strategy(device_iterations=2)
    first = make(accelerator="ipu", devices=1, strategy=strategy)
    second = make(accelerator="ipu", devices=4, strategy=strategy, precision="16-true")
    assert first.strategy is second.strategy is strategy
    assert second.num_devices == 4


def test_a_strategy_of_the_other_package_is_made_again(make, family):
    (other,) = [package for package in PACKAGES if package != family.lightning.package]
    importlib.import_module(other)
    foreign = family_of(Lightning(other)).strategy(device_iterations=5)
    trainer = make(accelerator="ipu", devices=1, strategy=foreign)
    assert isinstance(trainer.strategy, family.strategy)
    assert trainer.strategy.device_iterations == 5


def test_public_names_are_those_of_the_package_whose_trainer_was_made_last(make, family):
    trainer = make(accelerator="ipu", devices=1)
    assert isinstance(trainer.strategy, lightning_ipu.IPUStrategy)
    assert lightning_ipu.IPUStrategy is family.strategy


def test_a_lightning_without_the_hook_is_an_error_with_both_versions(monkeypatch):
    lightning = Lightning("lightning.pytorch")
    connector = lightning.module("trainer.connectors.accelerator_connector")
    monkeypatch.delattr(connector, "_AcceleratorConnector")
    with pytest.raises(
        ImportError, match=rf"lightning-ipu .* cannot hook into lightning {lightning.version}: it has no .*_AcceleratorConnector"
    ):
        _register.register(lightning)


def test_a_decision_that_is_not_ours_is_an_error(family):
    class Connector:
        accelerator, strategy, precision_plugin = family.accelerator(), object(), family.precision()

    with pytest.raises(RuntimeError, match="chose object as strategy"):
        _register._check_decision(Connector(), family)


ORDERS = [
    "import lightning_ipu; import lightning as L",
    "import pytorch_lightning as L; import lightning_ipu",
    "import lightning; import lightning_ipu; import pytorch_lightning as L",
]


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_any_order_of_imports_works(order):
    program = f"""{order}
trainer = L.Trainer(accelerator="ipu", devices=2, logger=False, enable_checkpointing=False)
assert isinstance(trainer.strategy, lightning_ipu.IPUStrategy), type(trainer.strategy)
bases = [base.__module__.split(".")[0] for base in type(trainer.strategy).__mro__]
assert set(bases) & {{"lightning", "pytorch_lightning"}} == {{L.__name__}}, bases
"""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )
    assert result.returncode == 0, result.stdout


def test_importing_the_plug_in_imports_neither_torch_nor_lightning():
    program = "import sys, lightning_ipu; print(sorted({'torch', 'lightning', 'pytorch_lightning'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, encoding="utf-8").stdout.strip() == "[]"
