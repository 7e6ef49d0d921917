"""The compiled module's names that programs reach, and what it says of options."""

import logging

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.poptorch import poptorch_core


def options_with(key, value):
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    options._Popart.set(key, value)
    return options


def check(options):
    poptorch_core._validateOptions(options.toDict())


def compile_with(options):
    poptorch.inferenceModel(nn.Identity(), options).compile(torch.ones(1))


def test_its_errors_are_poptorchs():
    assert poptorch_core.Error is poptorch.Error and poptorch.poptorch_core is poptorch_core


@pytest.mark.parametrize("strategy", [poptorch.ShardedExecution(), poptorch.PipelinedExecution("a"), poptorch.SerialPhasedExecution("a")])
def test_every_option_of_poptorch_itself_is_known(strategy):
    options = poptorch.Options().outputMode(poptorch.OutputMode.Sum).setExecutionStrategy(strategy).randomSeed(3).modelName("m")
    options.useOfflineIpuTarget().setAvailableMemoryProportion({"IPU0": 0.3}).enableExecutableCaching("/tmp").useIpuId(1)
    options.anchorTensor("a", "b")
    for name in ("Weight", "Activation", "Optimizer", "Accumulator"):
        getattr(options.TensorLocations, f"set{name}Location")(poptorch.TensorLocationSettings().useOnChipStorage(False))
    options.TensorLocations.numIOTiles(32)
    options.Precision.setPartialsType(torch.half).enableStochasticRounding(True).enableFloatingPointExceptions(True)
    check(options)


@pytest.mark.parametrize("act", [check, compile_with])
@pytest.mark.parametrize(
    "key, value, message",
    [
        ("outlineTreshold", 1, "Unknown PopART option 'outlineTreshold' .*did you mean outlineThreshold"),
        ("dotChecks", torch.empty(1, 1), "Unknown value type Tensor for option dotChecks"),
        ("dotChecks", [torch.empty(1)], "Unknown value type list for option dotChecks"),
        ("engineOptions", {"a": object()}, "Unknown value type dict for option engineOptions"),
        ("outlineThreshold", None, "Unknown value type NoneType for option outlineThreshold"),
    ],
)
def test_what_popart_does_not_take_is_refused(act, key, value, message):
    with pytest.raises(poptorch.Error, match=message):
        act(options_with(key, value))


@pytest.mark.parametrize("value", [1, 0.5, "ALL", True, ["FINAL", "ALL"], {0, 1}, [], {"a": "b", "c": 1}])
def test_numbers_strings_and_collections_of_them_are_taken(value):
    check(options_with("dotChecks", value))
    compile_with(options_with("dotChecks", value))


def test_the_check_says_what_is_set(caplog):
    caplog.set_level(logging.DEBUG, logger="poptorch::python")
    check(options_with("hardwareInstrumentations", {0, 1}))
    for line in ("poptorch.Options added 0 to hardwareInstrumentations", "poptorch.Options set replication_factor to value 1"):
        assert line in caplog.messages
