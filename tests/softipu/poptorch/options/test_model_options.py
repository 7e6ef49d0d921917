"""poptorch.Options: setters, values, checks."""

import pytest
import torch

from softipu.poptorch import enums
from softipu.poptorch.blocks import strategies
from softipu.poptorch.options import Options, TensorLocationSettings, _DistributedOptions


@pytest.fixture
def options():
    return Options()


SETTERS = [
    ("deviceIterations", (5,), "device_iterations", 5),
    ("replicationFactor", (4,), "replication_factor", 4),
    ("broadcastBuffers", (False,), "broadcast_buffers", False),
    ("autoRoundNumIPUs", (), "auto_round_num_ipus", True),
    ("connectionType", (enums.ConnectionType.OnDemand,), "connection_type", 1),
    ("syncPattern", (enums.SyncPattern.ReplicaAndLadder,), "sync_pattern", 2),
    ("outputMode", (enums.OutputMode.EveryN, 3), "output_return_period", 3),
    ("outputMode", (enums.OutputMode.Sum,), "output_mode", 3),
    ("useIpuId", (7,), "ipu_id", 7),
    ("useIpuModel", (True,), "use_model", True),
    ("useOfflineIpuTarget", (), "ipu_version", 2),
    ("useOfflineIpuTarget", (21,), "connection_type", 2),
    ("modelName", ("net",), "model_name", "net"),
    ("logDir", ("logs",), "log_dir", "logs"),
    ("maxRepeatLogs", (None,), "max_repeat_logs", None),
    ("setAvailableMemoryProportion", ({"IPU0": 0.6, "IPU12": 0.1},), "available_memory_proportion", {0: 0.6, 12: 0.1}),
    ("randomSeed", (42,), "random_seed", 42),
]


@pytest.mark.parametrize("setter, arguments, name, value", SETTERS)
def test_setter_returns_the_options_and_stores_the_value(options, setter, arguments, name, value):
    assert getattr(options, setter)(*arguments) is options
    assert getattr(options, name) == value and type(getattr(options, name)) is type(value)


@pytest.mark.parametrize(
    "setter, arguments, key, value",
    [
        ("updatableNamedBuffers", (["b"],), "updatableNamedBuffers", ["b"]),
        ("enableStableNorm", (True,), "enableStableNorm", True),
        ("enableSyntheticData", (True,), "syntheticDataMode", 2),
        ("enableSyntheticData", (False,), "syntheticDataMode", 0),
        ("logCycleCount", (True,), "instrumentWithHardwareCycleCounter", True),
        ("enableExecutableCaching", ("folder",), "cachePath", "folder"),
        ("enableExecutableCaching", ("folder",), "enableEngineCaching", True),
        ("enableExecutableCaching", (None,), "enableEngineCaching", False),
    ],
)
def test_setters_that_go_to_popart(options, setter, arguments, key, value):
    assert getattr(options, setter)(*arguments) is options
    assert options._Popart.options[key] == value


def test_defaults_are_poptorchs(options):
    expected = {
        "device_iterations": 1,
        "replication_factor": 1,
        "input_group_size": 1,
        "input_group_type": enums.CommGroupType.Consecutive,
        "output_mode": enums.OutputMode.Default,
        "output_return_period": 1,
        "broadcast_buffers": True,
        "connection_type": enums.ConnectionType.Always,
        "sync_pattern": enums.SyncPattern.Full,
        "auto_round_num_ipus": False,
        "anchored_tensors": {},
        "log_dir": ".",
        "max_repeat_logs": 4,
    }
    assert {name: getattr(options, name) for name in expected} == expected
    assert isinstance(options._execution_strategy, strategies.PipelinedExecution)
    assert options.defaultOutputMode()


@pytest.mark.parametrize(
    "setter, value, message",
    [
        ("deviceIterations", "2", "Unexpected type <class 'str'> for option device_iterations"),
        ("deviceIterations", 0, "deviceIterations must be at least 1, given 0"),
        ("replicationFactor", "2", "Unexpected type <class 'str'> for option replication_factor .* Expected <class 'int'>"),
        ("replicationFactor", -1, "replicationFactor must be at least 1, given -1"),
        ("broadcastBuffers", 1, "Unexpected type <class 'int'> for option broadcast_buffers"),
        ("autoRoundNumIPUs", "yes", "Unexpected type <class 'str'> for option auto_round_num_ipus"),
        ("connectionType", 1, "connectionType needs a poptorch.ConnectionType, given 1"),
        ("syncPattern", 1, "syncPattern needs a poptorch.SyncPattern, given 1"),
        ("outputMode", 2, "outputMode needs a poptorch.OutputMode, given 2"),
        ("outputMode", enums.OutputMode.EveryN, "EveryN must have output_return_period set to valid positive integer, given None"),
        ("randomSeed", 1.5, "randomSeed needs an int, given 1.5"),
        ("useIpuId", "0", "useIpuId needs an int, given '0'"),
        ("useIpuModel", 1, "useIpuModel needs True or False, given 1"),
        ("useOfflineIpuTarget", 3, "knows the IPU versions .* given 3"),
        ("setAvailableMemoryProportion", {"GPU0": 0.1}, "Invalid key: GPU0"),
        ("setExecutionStrategy", "pipeline", "An execution strategy is a poptorch.PipelinedExecution, .* given 'pipeline'"),
        ("maxRepeatLogs", "4", "Unexpected type <class 'str'> for option max_repeat_logs"),
        ("modelName", 3, "modelName needs a str, given 3"),
    ],
)
def test_wrong_values_are_assertion_errors(options, setter, value, message):
    before = repr(options)
    with pytest.raises(AssertionError, match=message):
        getattr(options, setter)(value)
    assert repr(options) == before


def test_output_period_zero_is_refused(options):
    with pytest.raises(AssertionError, match="given 0"):
        options.outputMode(enums.OutputMode.EveryN, 0)


def test_memory_proportion_of_no_number_is_a_value_error(options):
    with pytest.raises(ValueError, match="invalid literal"):
        options.setAvailableMemoryProportion({"IPUx": 0.5})


def test_unknown_attributes_are_attribute_errors(options):
    with pytest.raises(AttributeError, match="Invalid attribute device_iteration"):
        options("device_iteration")
    with pytest.raises(AttributeError, match="Invalid attribute device_iteration"):
        options.device_iteration = 3
    with pytest.raises(AttributeError, match="Invalid private attribute _mine"):
        options._mine = 3
    with pytest.raises(AssertionError, match="Invalid option device_iteration, valid options are"):
        options.set(device_iteration=3)


def test_values_that_have_no_default_are_unknown_until_set(options):
    assert not options.exists("random_seed")
    with pytest.raises(AttributeError, match="random_seed"):
        options("random_seed")
    options.randomSeed(1)
    assert options.exists("random_seed")


def test_known_attributes_can_be_assigned(options):
    options.device_iterations = 6
    assert options.device_iterations == options("device_iterations") == 6
    with pytest.raises(AssertionError, match="Unexpected type"):
        options.device_iterations = "6"


def test_random_seed_seeds_torch_at_once(options):
    options.randomSeed(7)
    first = torch.rand(3)
    options.randomSeed(7)
    assert torch.equal(first, torch.rand(3))


def test_output_mode_is_compared_as_a_number_or_a_member(options):
    options.outputMode(enums.OutputMode.All)
    assert options.output_mode == enums.OutputMode.All == 2 and not options.defaultOutputMode()


def test_max_repeat_logs_can_be_set_again_after_none(options):
    assert options.maxRepeatLogs(None).maxRepeatLogs(9).max_repeat_logs == 9


# Input groups


@pytest.mark.parametrize("kind", [enums.CommGroupType.Consecutive, enums.CommGroupType.Orthogonal])
def test_input_groups_divide_the_replicas(options, kind):
    options.replicationFactor(4).inputReplicaGrouping(2, kind)
    assert (options.input_group_size, options.input_group_type) == (2, kind)


def test_no_grouping_gives_every_replica_its_own_rows(options):
    options.replicationFactor(4).inputReplicaGrouping(4, enums.CommGroupType.NoGrouping)
    assert options.input_group_size == 1


@pytest.mark.parametrize(
    "size, kind, message",
    [
        (2, enums.CommGroupType.All, "Consecutive, Orthogonal or NoGrouping, given <CommGroupType.All"),
        (2, 1, "Consecutive, Orthogonal or NoGrouping, given 1"),
        (8, enums.CommGroupType.Consecutive, r"divisor of the replication factor \(4\), given 8"),
        (3, enums.CommGroupType.Consecutive, r"divisor of the replication factor \(4\), given 3"),
        (0, enums.CommGroupType.Consecutive, "given 0"),
    ],
)
def test_impossible_input_groups_are_value_errors(options, size, kind, message):
    options.replicationFactor(4)
    with pytest.raises(ValueError, match=message):
        options.inputReplicaGrouping(size, kind)


# Anchors, names, profiles


def test_anchor_keeps_name_and_mode_and_returns_nothing(options):
    assert options.anchorTensor("grad", "Gradient___w") is None
    options.anchorTensor("w", "w", enums.OutputMode.EveryN, 2)
    options.anchorTensor("v", "v", enums.OutputMode.All, 2)
    assert options.anchored_tensors == {
        "grad": ["Gradient___w", True, None, 1],
        "w": ["w", False, enums.OutputMode.EveryN, 2],
        "v": ["v", False, enums.OutputMode.All, 1],
    }
    with pytest.raises(AssertionError, match="anchorTensor needs a poptorch.OutputMode or None, given 2"):
        options.anchorTensor("x", "x", 2)


def test_location_excludes_are_replaced_and_appended(options):
    default = list(options._source_location_excludes)
    assert options.appendToLocationExcludes("a", "b")._source_location_excludes == default + ["a", "b"]
    given = ["c"]
    assert options.sourceLocationExcludes(given).appendToLocationExcludes("d")._source_location_excludes == ["c", "d"]
    assert given == ["c"] and Options()._source_location_excludes == default


def test_switches_that_stay_on_this_side(options):
    assert options.relaxOptimizerAttributesChecks() is options and options._relax_optimizer_checks
    assert options.showCompilationProgressBar(False) is options and not options._show_compilation_progress_bar
    assert options.disableModuleNamescope() is options and not options._module_namescope_enabled


def test_profiling_sets_engine_options_and_keeps_others(options, monkeypatch):
    monkeypatch.delenv("POPLAR_ENGINE_OPTIONS", raising=False)
    options._Popart.setEngineOptions({"target.syncReplicasIndependently": "true"})
    options.enableProfiling("folder")
    assert options._Popart.options["engineOptions"] == {
        "target.syncReplicasIndependently": "true",
        "debug.allowOutOfMemory": "true",
        "autoReport.directory": "folder",
        "autoReport.all": "true",
    }


@pytest.mark.parametrize("value, warns", [('{"autoReport.all":"true"}', True), ('{"other":"1"}', False)])
def test_profiling_warns_when_the_environment_goes_first(options, monkeypatch, caplog, value, warns):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", value)
    options.enableProfiling()
    assert ("Check content of POPLAR_ENGINE_OPTIONS" in caplog.text) is warns


# The object as a whole


def test_printing_shows_values_and_no_addresses(options):
    options.replicationFactor(4).Training.gradientAccumulation(3)
    text = repr(options)
    assert text.startswith("Options(") and "replication_factor=4" in text and "gradient_accumulation=3" in text
    assert f"{id(options):x}" not in text and " at 0x" not in text
    assert text == repr(options.clone())


def test_to_dict_is_flat_and_needs_an_output_mode(options):
    with pytest.raises(AssertionError, match="An output mode must be picked before serialisation"):
        options.toDict()
    options.outputMode(enums.OutputMode.All).deviceIterations(3).Training.gradientAccumulation(2)
    options.TensorLocations.setWeightLocation(TensorLocationSettings().useOnChipStorage(False))
    options._Popart.set("outlineThreshold", 10)
    values = options.toDict()
    assert values["device_iterations"] == 3 and values["gradient_accumulation"] == 2 and values["execution_mode"] == 0
    assert values["location_weight"] == {"onChip": 0} and values["outlineThreshold"] == 10 and values["num_distributed_processes"] == 1


def test_popdist_can_give_groups_another_class(options):
    class Distributed(_DistributedOptions):
        pass

    options.Distributed.__class__ = Distributed
    assert type(options.Distributed) is Distributed and options.Distributed.numProcesses == 1


def test_a_subclass_may_add_private_attributes_before_construction():
    class Mine(Options):
        def __init__(self):
            self._ipus_per_replica = 2
            super().__init__()

    assert Mine().clone()._ipus_per_replica == 2
