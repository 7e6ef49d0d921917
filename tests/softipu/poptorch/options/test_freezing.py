"""Options cannot be changed once in use; copies can."""

import copy
import pickle

import pytest
import torch

from softipu.poptorch import enums
from softipu.poptorch.blocks import strategies
from softipu.poptorch.options import Options, TensorLocationSettings

CHANGES = {
    "setter": lambda o: o.deviceIterations(5),
    "set": lambda o: o.set(device_iterations=5),
    "createOrSet": lambda o: o.createOrSet(model_name="x"),
    "attribute": lambda o: setattr(o, "device_iterations", 5),
    "seed": lambda o: o.randomSeed(3),
    "anchor": lambda o: o.anchorTensor("a", "b"),
    "strategy": lambda o: o.setExecutionStrategy(strategies.ShardedExecution()),
    "private": lambda o: o.showCompilationProgressBar(False),
    "excludes": lambda o: o.appendToLocationExcludes("x"),
    "json": lambda o: o.from_json("{}"),
    "training": lambda o: o.Training.gradientAccumulation(0),
    "loss scaling": lambda o: o.Training.setAutomaticLossScaling(True),
    "dithering": lambda o: o.Training.setConvolutionDithering(True),
    "distributed": lambda o: o.Distributed.configureProcessId(5, 15),
    "locations": lambda o: o.TensorLocations.setWeightLocation(TensorLocationSettings()),
    "precision": lambda o: o.Precision.setPartialsType(torch.half),
    "half float": lambda o: o.Precision.halfFloatCasting(enums.HalfFloatCastingBehavior.HalfUpcastToFloat),
    "jit": lambda o: o.Jit.traceModel(False),
    "popart": lambda o: o._Popart.set("autoRecomputation", 3),
    "patterns": lambda o: o._Popart.setPatterns({}),
    "profiling": lambda o: o.enableProfiling(),
    "caching": lambda o: o.enableExecutableCaching("x"),
}


@pytest.fixture
def frozen():
    options = Options()
    options._freeze()
    return options


@pytest.mark.parametrize("change", sorted(set(CHANGES) - {"training"}))
def test_frozen_options_refuse_every_change(frozen, change):
    before = repr(frozen)
    with pytest.raises(AttributeError, match="Can't modify frozen Options.*change a copy"):
        CHANGES[change](frozen)
    assert repr(frozen) == before


def test_frozen_options_refuse_wrong_values_too(frozen):
    with pytest.raises((AttributeError, AssertionError)):
        frozen.Training.gradientAccumulation(0)


def test_frozen_seed_does_not_reach_torch(frozen):
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    with pytest.raises(AttributeError):
        frozen.randomSeed(99)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("copied", [copy.deepcopy, Options.clone])
def test_copies_are_not_frozen(frozen, copied):
    other = copied(frozen)
    for name in set(CHANGES) - {"training"}:
        CHANGES[name](other)
    other.Training.gradientAccumulation(4)
    assert other.device_iterations == 5 and frozen.device_iterations == 1 and frozen.Training.gradient_accumulation == 1


def test_copies_share_nothing():
    options = Options()
    options.anchorTensor("t1", "tensor1", enums.OutputMode.EveryN, 2)
    options._Popart.set("autoRecomputation", 3)
    options.TensorLocations.setWeightLocation(TensorLocationSettings().useOnChipStorage(True))
    other = copy.deepcopy(options)
    options.anchorTensor("t2", "tensor2")
    options.Precision.setPartialsType(torch.half)
    options.TensorLocations.setWeightLocation(TensorLocationSettings().useOnChipStorage(False))
    assert list(other.anchored_tensors) == ["t1"] and "partialsTypeMatMuls" not in other._Popart.options
    assert other.TensorLocations.location_weight["onChip"] and not options.TensorLocations.location_weight["onChip"]


def test_groups_of_a_copy_write_to_its_own_popart_options():
    other = Options().clone()
    other.Precision.enableStochasticRounding(True)
    other.Training.setAutomaticLossScaling(True)
    assert other._Popart.options["enableStochasticRounding"] and other._Popart.options["automaticLossScalingSettings.enabled"]


def test_pickled_options_keep_values_and_stay_frozen(frozen):
    other = pickle.loads(pickle.dumps(frozen))
    assert repr(other) == repr(frozen)
    with pytest.raises(AttributeError, match="frozen"):
        other.deviceIterations(2)


def test_unfreezing_allows_changes_in_all_groups(frozen):
    frozen._unfreeze()
    frozen.Training.gradientAccumulation(2)
    frozen._Popart.set("a", 1)
    assert frozen.Training.gradient_accumulation == 2
