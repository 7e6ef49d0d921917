"""Whose PopTorch is chosen, and why."""

import logging
import sys
import types

import pytest

from lightning_ipu import backend


@pytest.fixture
def sdk(monkeypatch):
    """``sdk(has_ipu)``: a stand-in for the SDK's own module."""

    def install(*, has_ipu):
        module = types.ModuleType("poptorch")
        module.__file__ = "/opt/sdk/poptorch/__init__.py"
        module.ipuHardwareIsAvailable = lambda n_ipus=1: has_ipu
        monkeypatch.setitem(sys.modules, "poptorch", module)

    monkeypatch.delenv(backend.VARIABLE, raising=False)
    monkeypatch.delenv("POPTORCH_IPU_MODEL", raising=False)
    return install


def test_without_an_sdk_it_is_the_software_ipu(monkeypatch):
    monkeypatch.delenv(backend.VARIABLE, raising=False)
    assert backend.choose() == backend.Backend("software", "no Poplar SDK found")


def test_an_attached_ipu_means_the_sdk(sdk):
    sdk(has_ipu=True)
    assert backend.choose() == backend.Backend("sdk", "an IPU is attached")


def test_an_sdk_without_an_ipu_is_not_enough(sdk):
    sdk(has_ipu=False)
    assert backend.choose() == backend.Backend("software", "the Poplar SDK is here, but no IPU is attached")


def test_the_sdks_ipu_model_can_be_asked_for(sdk, monkeypatch):
    sdk(has_ipu=False)
    monkeypatch.setenv("POPTORCH_IPU_MODEL", "1")
    assert backend.choose().name == "sdk"


def test_the_variable_overrides(sdk, monkeypatch):
    sdk(has_ipu=True)
    monkeypatch.setenv(backend.VARIABLE, "software")
    assert backend.choose().name == "software"
    monkeypatch.setenv(backend.VARIABLE, "SDK")
    assert backend.choose().name == "sdk"
    monkeypatch.setenv(backend.VARIABLE, "gpu")
    with pytest.raises(ValueError, match="LIGHTNING_IPU_BACKEND='gpu' is not known. Allowed: software or sdk"):
        backend.choose()


def test_hardware_is_what_the_sdk_finds(sdk, monkeypatch):
    assert not backend.hardware_is_attached()
    sdk(has_ipu=False)
    assert not backend.hardware_is_attached()
    sdk(has_ipu=True)
    assert backend.hardware_is_attached()
    monkeypatch.setenv(backend.VARIABLE, "software")
    assert not backend.hardware_is_attached()


def test_an_sdk_that_fails_has_no_hardware(sdk, monkeypatch):
    sdk(has_ipu=True)
    monkeypatch.delattr(sys.modules["poptorch"], "ipuHardwareIsAvailable")
    assert not backend.hardware_is_attached()


def test_asking_for_an_sdk_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setenv(backend.VARIABLE, "sdk")
    with pytest.raises(ImportError, match="no Poplar SDK was found"):
        backend.choose()


def test_the_stand_in_does_not_count_as_an_sdk(monkeypatch):
    monkeypatch.syspath_prepend(backend.stand_in_folder())
    assert backend.sdk_location() is None


def test_the_reason_is_logged_once(caplog, monkeypatch):
    monkeypatch.delenv(backend.VARIABLE, raising=False)
    monkeypatch.setattr(logging.getLogger("lightning_ipu"), "propagate", True)
    backend.poptorch.cache_clear()
    with caplog.at_level(logging.INFO, logger="lightning_ipu"):
        assert backend.poptorch() is backend.poptorch()
    assert [record.message for record in caplog.records] == ["lightning-ipu: running on the software IPU: no Poplar SDK found"]
