"""Options from JSON and from environment variables; which device they ask for."""

import json

import pytest

from softipu.errors import Error
from softipu.poptorch import enums
from softipu.poptorch.options import Options, check_target
from softipu.poptorch.options.ipu_model import ipu_model_version, wants_ipu_model


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in (
        "POPTORCH_CACHE_DIR",
        "POPTORCH_DEFAULT_OPTIONS",
        "POPTORCH_IPU_MODEL",
        "POPTORCH_SMALL_IPU_MODEL",
        "POPTORCH_IPU_MODEL_VERSION",
    ):
        monkeypatch.delenv(name, raising=False)


def test_default_options_equal_the_same_setters(monkeypatch):
    by_hand = Options().deviceIterations(2).replicationFactor(1).logDir("logs").enableSyntheticData(True)
    settings = {"deviceIterations": 2, "replicationFactor": 1, "logDir": "logs", "enableSyntheticData": True}
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", json.dumps(settings))
    assert repr(Options()) == repr(by_hand)


@pytest.mark.parametrize(
    "text, change",
    [
        ('{"Precision.enableFloatingPointExceptions":true}', lambda o: o.Precision.enableFloatingPointExceptions(True)),
        ('{"connectionType":"ConnectionType.OnDemand"}', lambda o: o.connectionType(enums.ConnectionType.OnDemand)),
        ('{"_Popart.set":["saveInitializersToFile", "my_file.onnx"]}', lambda o: o._Popart.set("saveInitializersToFile", "my_file.onnx")),
        ('{"outputMode":["OutputMode.EveryN", 2]}', lambda o: o.outputMode(enums.OutputMode.EveryN, 2)),
        ('{"updatableNamedBuffers":[["a", "b"]]}', lambda o: o.updatableNamedBuffers(["a", "b"])),
    ],
)
def test_json_calls_setters(text, change):
    by_hand = Options()
    change(by_hand)
    options = Options()
    assert options.from_json(text) is options
    assert repr(options) == repr(by_hand) != repr(Options())


@pytest.mark.parametrize(
    "text, error, message",
    [
        ('{"deviceIteration":2}', AttributeError, "Unknown option 'deviceIteration'"),
        ('{"_popart.set":["a", 1]}', AttributeError, "Unknown group"),
        ('{"__init__":[]}', AttributeError, "Unknown option '__init__'"),
        ('{"outputMode":"OutputMode.Some"}', AttributeError, "OutputMode has no member 'Some'"),
        ('{"deviceIterations":', ValueError, "Expecting value"),
        ("[1]", ValueError, "an object with setters as names"),
        ('{"deviceIterations":"2"}', AssertionError, "Unexpected type"),
    ],
)
def test_wrong_json_is_an_error(text, error, message):
    with pytest.raises(error, match=message):
        Options().from_json(text)


def test_cache_folder_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("POPTORCH_CACHE_DIR", "folder")
    assert Options()._Popart.options["cachePath"] == "folder" and Options()._Popart.options["enableEngineCaching"]
    assert Options().enableExecutableCaching(None)._Popart.options["enableEngineCaching"] is False


@pytest.mark.parametrize("value, wanted", [("0", False), ("1", True), ("2", True)])
def test_ipu_model_comes_from_the_environment_unless_set(monkeypatch, value, wanted):
    monkeypatch.setenv("POPTORCH_IPU_MODEL", value)
    assert wants_ipu_model(Options()) is wanted
    assert wants_ipu_model(Options().useIpuModel(not wanted)) is not wanted


def test_ipu_model_variable_must_be_a_number(monkeypatch):
    monkeypatch.setenv("POPTORCH_IPU_MODEL", "yes")
    with pytest.raises(Error, match="POPTORCH_IPU_MODEL must be an integer, 0 for off, given 'yes'"):
        wants_ipu_model(Options())


def test_ipu_model_version_is_checked(monkeypatch):
    assert ipu_model_version() == "ipu2"
    monkeypatch.setenv("POPTORCH_IPU_MODEL_VERSION", "ipu21")
    assert ipu_model_version() == "ipu21"
    monkeypatch.setenv("POPTORCH_IPU_MODEL_VERSION", "ipu9")
    with pytest.raises(Error, match="Unknown IPU model version 'ipu9' .* Valid values are ipu1, ipu2, ipu21"):
        check_target(Options().useIpuModel(True))


def test_offline_target_and_ipu_model_exclude_each_other(monkeypatch):
    check_target(Options().useOfflineIpuTarget())
    check_target(Options().useIpuModel(True))
    with pytest.raises(Error, match=r"useOfflineIpuTarget\(\) cannot be used with the IPU Model"):
        check_target(Options().useOfflineIpuTarget().useIpuModel(True))
    monkeypatch.setenv("POPTORCH_IPU_MODEL", "1")
    with pytest.raises(Error, match="POPTORCH_IPU_MODEL"):
        check_target(Options().useOfflineIpuTarget())
