"""Ways of resampling that PopTorch does not compile are refused in its words, with the user's line; the others run."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from softipu import poptorch

SIGNAL, IMAGE, VOLUME = torch.randn(1, 2, 3), torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4, 5)


class Resampled(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.how = how

    def forward(self, x):
        return F.interpolate(x, **self.how)


@pytest.mark.parametrize(("mode", "x", "op"), [("linear", SIGNAL, "upsample_linear1d"), ("trilinear", VOLUME, "upsample_trilinear3d")])
@pytest.mark.parametrize("align_corners", [False, True])
def test_linear_resampling_of_signals_and_volumes_is_refused(mode, x, op, align_corners):
    model = poptorch.inferenceModel(Resampled(scale_factor=2, mode=mode, align_corners=align_corners))
    with pytest.raises(poptorch.Error, match=f"Unsupported upsample mode aten::{op}: currently only 'nearest' is supported") as caught:
        model(x)
    _, first = inspect.getsourcelines(Resampled.forward)
    assert f"{__file__}:{first + 1}" in str(caught.value) and "Instead: use mode='nearest'" in str(caught.value)


def test_refusal_holds_for_layers_in_training():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.up = nn.Parameter(torch.ones(())), nn.Upsample(scale_factor=2, mode="linear")

        def forward(self, x):
            return poptorch.identity_loss(self.up(x * self.weight), "sum")

    with pytest.raises(poptorch.Error, match="only 'nearest' is supported"):
        poptorch.trainingModel(Model())(SIGNAL)


def test_bicubic_resampling_with_aligned_corners_is_refused():
    model = poptorch.inferenceModel(Resampled(scale_factor=2, mode="bicubic", align_corners=True))
    with pytest.raises(poptorch.Error, match="Only support align_corners=False"):
        model(IMAGE)


@pytest.mark.parametrize(
    "how",
    [
        {"scale_factor": 3.5, "mode": "nearest"},
        {"scale_factor": 2, "mode": "bilinear"},
        {"size": (7, 9), "mode": "bilinear", "align_corners": True},
        {"scale_factor": 1.5, "mode": "bicubic"},
    ],
    ids=lambda how: how["mode"],
)
def test_other_ways_run(how):
    torch.testing.assert_close(poptorch.inferenceModel(Resampled(**how))(IMAGE), F.interpolate(IMAGE, **how), rtol=1e-4, atol=1e-5)
