"""Every option given is reported; what has no effect is said in one log line."""

import dataclasses
import inspect
import logging

import pytest
import torch

from softipu.poptorch import enums
from softipu.poptorch.blocks import strategies
from softipu.poptorch.options import OptionEffect, Options, TensorLocationSettings, effects, log_ignored, log_settings
from softipu.poptorch.options.session_options import NAMES


def entry(options, name):
    (found,) = [e for e in options.report() if e.option == name]
    return found


def test_defaults_have_nothing_to_report():
    assert Options().report() == ()


def test_report_says_value_effect_and_reason():
    options = Options().deviceIterations(3).autoRoundNumIPUs().logCycleCount(True)
    assert [(e.option, e.value, e.effect) for e in options.report()] == [
        ("deviceIterations", 3, OptionEffect.HONOURED),
        ("autoRoundNumIPUs", True, OptionEffect.NO_EFFECT),
        ("logCycleCount", True, OptionEffect.NEEDS_HARDWARE),
    ]
    assert all(e.why for e in options.report())
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(options.report()[0], "value", 4)  # noqa: B010


CALLS = {
    "deviceIterations": (2,),
    "replicationFactor": (2,),
    "outputMode": (enums.OutputMode.All,),
    "broadcastBuffers": (False,),
    "updatableNamedBuffers": (["b"],),
    "randomSeed": (1,),
    "enableStableNorm": (True,),
    "enableSyntheticData": (True,),
    "relaxOptimizerAttributesChecks": (),
    "setExecutionStrategy": (strategies.ShardedExecution(),),
    "setAvailableMemoryProportion": ({"IPU0": 0.1},),
    "autoRoundNumIPUs": (),
    "connectionType": (enums.ConnectionType.Never,),
    "syncPattern": (enums.SyncPattern.SinglePipeline,),
    "useIpuId": (1,),
    "useIpuModel": (True,),
    "useOfflineIpuTarget": (),
    "enableExecutableCaching": ("folder",),
    "modelName": ("net",),
    "logDir": ("logs",),
    "maxRepeatLogs": (None,),
    "showCompilationProgressBar": (False,),
    "disableModuleNamescope": (),
    "logCycleCount": (True,),
    "enableProfiling": (),
}
# Grouping needs replicas, anchors return nothing, locations of sources only shape messages, the rest are no settings.
OTHERS = {
    "inputReplicaGrouping", "anchorTensor", "sourceLocationExcludes", "appendToLocationExcludes", "defaultOutputMode", "loadFromFile",
    "from_json", "toDict", "clone", "report", "set", "createOrSet", "exists", "deleteIfExists", "checkIsFrozen", "update",
}  # fmt: skip


def test_every_setter_is_looked_at_here():
    public = {name for name, _ in inspect.getmembers(Options, inspect.isfunction) if not name.startswith("_")}
    assert public == set(CALLS) | OTHERS


@pytest.mark.parametrize("setter", sorted(CALLS))
def test_every_setter_shows_in_the_report(setter, monkeypatch):
    monkeypatch.delenv("POPLAR_ENGINE_OPTIONS", raising=False)
    options = Options()
    getattr(options, setter)(*CALLS[setter])
    names = [e.option for e in options.report()]
    assert setter in names or (setter == "enableProfiling" and names == ["engine options and enableProfiling"]), names
    assert not [e for e in options.report() if "unknown" in e.why]


def test_groups_show_in_the_report():
    options = Options().replicationFactor(2).inputReplicaGrouping(2, enums.CommGroupType.Orthogonal)
    options.anchorTensor("a", "b")
    options.Training.gradientAccumulation(2).accumulationAndReplicationReductionType(enums.ReductionType.Sum)
    options.Training.setMeanAccumulationAndReplicationReductionStrategy(enums.MeanReductionStrategy.Running)
    options.Training.setAutomaticLossScaling(True)
    options.Precision.enableFloatingPointExceptions(True).enableStochasticRounding(True).setPartialsType(torch.half)
    options.TensorLocations.setWeightLocation(TensorLocationSettings().useOnChipStorage(False)).numIOTiles(32)
    options.Distributed.configureProcessId(1, 2)
    options._Popart.set("outlineThreshold", 10)
    names = {e.option for e in options.report()}
    assert names >= {
        "inputReplicaGrouping",
        "anchorTensor",
        "Training.gradientAccumulation",
        "Training.accumulationAndReplicationReductionType",
        "Training.setMeanAccumulationAndReplicationReductionStrategy",
        "Training.setAutomaticLossScaling",
        "Precision.enableFloatingPointExceptions",
        "Precision.enableStochasticRounding",
        "Precision.setPartialsType",
        "TensorLocations.location_weight",
        "TensorLocations.numIOTiles",
        "Distributed.distributed_process_id",
        "_Popart.set('outlineThreshold')",
    }


def test_hardware_instead_of_the_model_is_not_promised():
    assert entry(Options().useIpuModel(True), "useIpuModel").effect is OptionEffect.HONOURED
    assert entry(Options().useIpuModel(False), "useIpuModel").effect is OptionEffect.NEEDS_HARDWARE


def test_features_switched_off_are_nothing_to_report():
    options = Options().enableSyntheticData(False).enableExecutableCaching(None)
    options.Precision.enableStochasticRounding(False)
    assert options.report() == ()


def test_compiler_switches_are_reported_also_when_off():
    options = Options()
    options._Popart.set("enableOutlining", False)
    assert entry(options, "_Popart.set('enableOutlining')").effect is OptionEffect.NO_EFFECT


def test_one_line_names_everything_without_effect(caplog):
    caplog.set_level(logging.INFO, logger="poptorch::python")
    options = Options().deviceIterations(3).autoRoundNumIPUs().useIpuId(3)
    log_ignored(options)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "autoRoundNumIPUs = True" in record.message and "useIpuId = 3" in record.message
    assert "deviceIterations" not in record.message


def test_no_line_when_all_is_honoured(caplog):
    caplog.set_level(logging.DEBUG, logger="poptorch::python")
    log_ignored(Options().deviceIterations(3))
    assert not caplog.records


def test_a_warning_when_hardware_is_needed(caplog):
    log_ignored(Options().logCycleCount(True))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and "needs hardware" in record.message


def test_tables_name_real_setters():
    rows = [row[0] for table in (effects.OPTIONS, effects.TRAINING, effects.POPART, effects.PRIVATE) for row in table.values()]
    for name in set(rows) - {"convolution options", "engine options and enableProfiling"}:
        group, _, setter = name.rpartition(".")
        owner = getattr(Options(), group) if group else Options()
        assert callable(getattr(type(owner), setter)), name
    assert set(effects.POPART) <= NAMES


def test_unknown_popart_option_warns_and_suggests(caplog):
    options = Options()
    options._Popart.set("outlineTreshold", 10)
    log_ignored(options)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "no PopART option of this name is known" in record.message and "did you mean outlineThreshold?" in record.message


def test_settings_go_to_the_debug_log_in_poptorchs_words(caplog):
    caplog.set_level(logging.DEBUG, logger="poptorch::python")
    options = Options().outputMode(enums.OutputMode.All).replicationFactor(2).setExecutionStrategy(strategies.ShardedExecution())
    options._Popart.set("dotChecks", ["FINAL"]).set("engineOptions", {"a": "b"}).set("enableOutlining", True)
    log_settings(options)
    for line in (
        "poptorch.Options set replication_factor to value 2",
        "poptorch.Options set execution_mode to value 1",
        "poptorch.Options added FINAL to dotChecks",
        "poptorch.Options set engineOptions[a] to b",
        "poptorch.Options set enableOutlining to value true",
    ):
        assert line in caplog.messages


def test_settings_are_silent_by_default(caplog):
    log_settings(Options().outputMode(enums.OutputMode.All))
    assert not caplog.records
