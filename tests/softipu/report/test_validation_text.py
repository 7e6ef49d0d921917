"""Predicted beside measured, and the table of devices, as text and JSON."""

import json

import pytest

from softipu.report.devices import devices_dict, devices_text
from softipu.report.validation import ValidationRow, summary, validation_dict, validation_text

ROWS = (
    ValidationRow("A", "resnet50", "bow-pod16", 11000.0, 10000.0, True, None),
    ValidationRow("B", "gpt2", "bow-pod16", 80.0, 100.0, True, None),
    ValidationRow("C", "bert-pretraining", "m2000-pod64", 2118.0, 2000.0, False, True),
    ValidationRow("D", "swin", "bow-pod4", 4594.0, None, False, False),
    ValidationRow("E", "alexnet", "bow-pod4", None, 10.0, None, True, "Unknown model family 'alexnet'."),
)


def test_validation_as_text(golden):
    golden(validation_text(ROWS), "validation.txt")


def test_devices_as_text(golden):
    golden(devices_text(), "devices.txt")


def test_summary_counts_what_was_measured_and_what_is_known():
    found = summary(ROWS)
    assert (found.n_measured, found.n_failed) == (3, 1)
    assert found.median_error_fraction == pytest.approx(0.1)
    assert (found.worst_error_fraction, found.worst_id) == (pytest.approx(0.2), "B")
    assert (found.n_fits_known, found.n_fits_right) == (3, 1)


def test_nothing_measured_has_no_error():
    found = summary(ROWS[3:4])
    assert found.median_error_fraction is None and found.worst_error_fraction is None
    assert "Throughput" not in validation_text(ROWS[3:4])


def test_json_has_null_where_a_row_has_none():
    data = json.loads(json.dumps(validation_dict(ROWS)))
    assert data["schema"] == 1
    keys = ("id", "predicted_items_per_second", "measured_items_per_second", "ratio", "fits", "known_fits")
    assert data["rows"][0] == dict(zip(keys, ("A", 11000.0, 10000.0, 1.1, True, None)))
    assert data["rows"][3]["ratio"] is None and data["rows"][3]["known_fits"] is False
    assert data["rows"][4]["predicted_items_per_second"] is None and "alexnet" in data["rows"][4]["error"]


def test_every_device_figure_has_a_source_in_json():
    data = json.loads(json.dumps(devices_dict()))
    assert set(data["ipus"]) == {"GC2", "GC200", "Bow", "C600"}
    assert {"m2000", "bow-2000", "bow-pod256"} <= set(data["systems"])
    assert data["ipus"]["Bow"]["clock_hz"]["value"] == 1.85e9
    assert all(figure["source"] for ipu in data["ipus"].values() for figure in ipu.values())
