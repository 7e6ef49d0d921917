import gc

import pytest

from lightning_ipu.planning.rare_collection import rare_collection


@pytest.fixture(autouse=True)
def _thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_cycles_are_looked_for_less_often_meanwhile():
    gc.set_threshold(700, 10, 10)
    with rare_collection():
        assert gc.get_threshold()[0] == 50_000
    assert gc.get_threshold() == (700, 10, 10)


def test_settings_come_back_after_an_error():
    gc.set_threshold(700, 10, 10)
    with pytest.raises(RuntimeError, match="capture"), rare_collection():
        raise RuntimeError("capture")
    assert gc.get_threshold() == (700, 10, 10)


def test_a_collector_that_is_off_stays_off():
    gc.set_threshold(0, 10, 10)
    with rare_collection():
        assert gc.get_threshold()[0] == 0
