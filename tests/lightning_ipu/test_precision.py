"""IPUPrecision."""

import pytest
import torch

from lightning_ipu import IPUPrecision

BATCH = {
    "x": torch.ones(2),
    "double": torch.ones(2, dtype=torch.float64),
    "label": torch.tensor([1, 2]),
    "mask": torch.tensor([True]),
    "n": 3,
}


@pytest.mark.parametrize("precision", ["16-true", "16-mixed"])
def test_floating_inputs_are_half_and_nothing_else_is(precision):
    cast = IPUPrecision(precision).convert_input(BATCH)
    assert [cast[name].dtype for name in ("x", "double", "label", "mask")] == [torch.half, torch.half, torch.int64, torch.bool]
    assert cast["n"] == 3


def test_full_precision_casts_nothing():
    assert IPUPrecision().convert_input(BATCH) is BATCH


def test_only_16_true_has_half_weights():
    for precision, dtype in (("16-true", torch.half), ("16-mixed", torch.float32), ("32-true", torch.float32)):
        assert IPUPrecision(precision).convert_module(torch.nn.Linear(2, 2)).weight.dtype == dtype


def test_modules_made_for_16_true_are_half():
    with IPUPrecision("16-true").tensor_init_context():
        assert torch.ones(1).dtype == torch.half
    assert torch.ones(1).dtype == torch.float32


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16", "64-true", "transformer-engine", "int8"])
def test_other_precisions_are_refused_by_name(precision):
    with pytest.raises(ValueError, match=r"precision='.*' is not available.*Allowed: '32-true', '16-mixed', '16-true'"):
        IPUPrecision(precision)
