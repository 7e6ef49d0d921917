"""Options.Training, Precision, TensorLocations, Distributed, Jit and _Popart."""

import pytest
import torch

from softipu.poptorch import enums
from softipu.poptorch.options import Options, TensorLocationSettings


@pytest.fixture
def options(monkeypatch):
    for name in ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    return Options()


# Training


def test_training_defaults(options):
    training = options.Training
    assert training.gradient_accumulation == 1
    assert training.accumulation_and_replication_reduction_type is enums.ReductionType.Mean
    assert training.meanAccumulationAndReplicationReductionStrategy is enums.MeanReductionStrategy.Post


def test_training_setters_chain_on_the_group(options):
    training = options.Training
    assert training.gradientAccumulation(8).accumulationAndReplicationReductionType(enums.ReductionType.Sum) is training
    training.setMeanAccumulationAndReplicationReductionStrategy(enums.MeanReductionStrategy.Running)
    assert training.setAutomaticLossScaling(True).setConvolutionDithering(True) is training
    assert options.Training.gradient_accumulation == 8
    assert training.accumulation_and_replication_reduction_type is enums.ReductionType.Sum
    assert training.meanAccumulationAndReplicationReductionStrategy is enums.MeanReductionStrategy.Running
    assert options._Popart.options["automaticLossScalingSettings.enabled"] is True
    assert options._Popart.options["convolutionOptions"] == {"enableConvDithering": True}


@pytest.mark.parametrize("given", [enums.ReductionType.NoReduction, 0, "mean"])
def test_reduction_type_must_be_mean_or_sum(options, given):
    with pytest.raises(ValueError, match="must be set to poptorch.ReductionType.Mean or poptorch.ReductionType.Sum"):
        options.Training.accumulationAndReplicationReductionType(given)


@pytest.mark.parametrize("given, message", [("2", "Unexpected type <class 'str'>"), (2.0, "Unexpected type"), (0, "at least 1, given 0")])
def test_gradient_accumulation_must_be_a_positive_int(options, given, message):
    with pytest.raises(AssertionError, match=message):
        options.Training.gradientAccumulation(given)


def test_mean_strategy_must_be_one(options):
    with pytest.raises(AssertionError, match="Unexpected type <class 'int'> for option meanAccumulation"):
        options.Training.setMeanAccumulationAndReplicationReductionStrategy(1)


# Precision


def test_partials_type_goes_to_products_and_convolutions(options):
    options.Training.setConvolutionDithering(True)
    assert options.Precision.setPartialsType(torch.half) is options.Precision
    assert options._Popart.options["partialsTypeMatMuls"] == "half"
    assert options._Popart.options["convolutionOptions"] == {"enableConvDithering": True, "partialsType": "half"}
    options.Precision.setPartialsType(torch.float)
    assert options._Popart.options["convolutionOptions"]["partialsType"] == "float"


@pytest.mark.parametrize("given", [torch.float64, "half", None])
def test_partials_type_must_be_half_or_float(options, given):
    with pytest.raises(ValueError, match="either torch.float or torch.half, given"):
        options.Precision.setPartialsType(given)


def test_floating_point_exceptions_need_a_bool(options):
    options.Precision.enableFloatingPointExceptions(True).enableStochasticRounding(True)
    assert options._Popart.options["enableFloatingPointChecks"] and options._Popart.options["enableStochasticRounding"]
    with pytest.raises(AssertionError, match="needs to be set to a bool, given 1"):
        options.Precision.enableFloatingPointExceptions(1)


def test_deprecated_precision_options_warn_and_change_nothing(options, caplog):
    before = repr(options)
    options.Precision.halfFloatCasting(enums.HalfFloatCastingBehavior.FloatDowncastToHalf)
    options.Precision.runningStatisticsAlwaysFloat(True)
    assert "halfFloatCasting is deprecated and has no effect" in caplog.text and "FloatDowncastToHalf" in caplog.text
    assert "runningStatisticsAlwaysFloat is deprecated and has no effect" in caplog.text
    assert repr(options) == before


def test_deprecated_precision_options_check_their_argument(options):
    with pytest.raises(ValueError, match="halfFloatCasting must be set to .* given 1"):
        options.Precision.halfFloatCasting(1)
    with pytest.raises(ValueError, match="runningStatisticsAlwaysFloat needs to be set to a bool, given 1"):
        options.Precision.runningStatisticsAlwaysFloat(1)


# TensorLocations


def test_locations_are_stored_as_numbers(options):
    settings = TensorLocationSettings().minElementsForOffChip(4).useOnChipStorage(True).useReplicatedTensorSharding()
    settings.minElementsForReplicatedTensorSharding(8).useIOTilesToLoad(False).useIOTilesToStore()
    locations = options.TensorLocations
    for setter, name in (
        (locations.setActivationLocation, "location_activation"),
        (locations.setWeightLocation, "location_weight"),
        (locations.setOptimizerLocation, "location_optimizer"),
        (locations.setAccumulatorLocation, "location_accumulator"),
    ):
        assert setter(settings) is locations
        assert getattr(locations, name) == {
            "minElementsForOffChip": 4,
            "onChip": 1,
            "useReplicatedTensorSharding": 1,
            "minElementsForReplicatedTensorSharding": 8,
            "useIOTilesToLoad": 0,
            "useIOTilesToStore": 1,
        }
    assert settings.useOnChipStorage(None).toDict().get("onChip") is None


@pytest.mark.parametrize("setter", ["minElementsForOffChip", "minElementsForReplicatedTensorSharding"])
def test_thresholds_need_an_int(setter):
    with pytest.raises(AssertionError, match=f"{setter} needs an int, given 1.5"):
        getattr(TensorLocationSettings(), setter)(1.5)


@pytest.mark.parametrize("setter", ["useOnChipStorage", "useReplicatedTensorSharding", "useIOTilesToLoad", "useIOTilesToStore"])
def test_location_switches_need_a_bool(setter):
    with pytest.raises(AssertionError, match="needs True or False, given 1"):
        getattr(TensorLocationSettings(), setter)(1)


def test_a_location_must_be_settings(options):
    with pytest.raises(AssertionError, match="A location is a poptorch.TensorLocationSettings, given {}"):
        options.TensorLocations.setWeightLocation({})


@pytest.mark.parametrize("n_tiles", [10, 33, 193, 194])
def test_io_tiles_out_of_range(options, n_tiles):
    with pytest.raises(AssertionError, match=f"numIOTiles must be an even number between 32 and 192. Given {n_tiles}"):
        options.TensorLocations.numIOTiles(n_tiles)


@pytest.mark.parametrize("n_tiles", [32, 100, 192])
def test_io_tiles_in_range(options, n_tiles):
    assert options.TensorLocations.numIOTiles(n_tiles) is options.TensorLocations
    assert options.TensorLocations.toDict()["numIOTiles"] == n_tiles


# Distributed


def test_processes_default_to_one(options):
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (0, 1)


def test_processes_come_from_mpi(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    distributed = Options().Distributed
    assert (distributed.processId, distributed.numProcesses) == (3, 4)
    assert distributed.disable() is distributed and (distributed.processId, distributed.numProcesses) == (0, 1)


def test_processes_come_from_named_variables(options, monkeypatch):
    monkeypatch.setenv("MY_SIZE", "2")
    monkeypatch.setenv("MY_RANK", "1")
    options.Distributed.setEnvVarNames("MY_SIZE", "MY_RANK")
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (1, 2)
    monkeypatch.setenv("MY_SIZE", "two")
    with pytest.raises(ValueError, match="two"):
        options.Distributed.setEnvVarNames("MY_SIZE", "MY_RANK")


def test_process_ids_are_ints(options):
    options.Distributed.configureProcessId(5, 15)
    assert options.Distributed.distributed_process_id == 5 and options.Distributed.num_distributed_processes == 15
    with pytest.raises(AssertionError, match="distributed_process_id"):
        options.Distributed.configureProcessId("0", 2)


# Jit


def test_tracing_is_gone(options, caplog):
    assert options.Jit.trace_model is False
    assert options.Jit.traceModel(False) is options.Jit and "traceModel is deprecated" in caplog.text
    with pytest.raises(ValueError, match=r"Jit.traceModel\(True\): tracing with torch.jit.trace is not supported"):
        options.Jit.traceModel(True)


# _Popart


def test_popart_options_are_kept_as_given(options):
    popart = options._Popart
    assert popart.set("hardwareInstrumentations", {0, 1}).setEngineOptions({"a": "b"}) is popart
    popart.setPatterns({"PadSum": True}, 0)
    assert popart.options["hardwareInstrumentations"] == {0, 1} and popart.options["engineOptions"] == {"a": "b"}
    assert popart.options["patterns"] == {"PadSum": True} and popart.options["patterns_level"] == 0


def test_patterns_check_their_types(options):
    with pytest.raises(AssertionError, match="Patterns must be a dict"):
        options._Popart.setPatterns(["PadSum"])
    with pytest.raises(AssertionError, match="pattern level must be an int, given '2'"):
        options._Popart.setPatterns({}, "2")
