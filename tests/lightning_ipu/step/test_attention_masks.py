"""Transformers of torch.nn with a mask, without a word on whether it is causal, train as on the CPU."""

import math

import pytest
import torch
from torch import nn

from lightning_ipu.step.attention_masks import masks_unread
from tests.lightning_ipu.trainer.oracle import TOGETHER, Net, assert_same, on_both, weights

CAUSAL = torch.full((3, 3), -math.inf).triu(1)
OTHER = torch.tensor([[0.0, -math.inf, 0.0], [0.0, 0.0, 0.0], [-math.inf, 0.0, 0.0]])


class Masked(Net):
    """Six numbers as three places of two."""

    def __init__(self, mask, kind):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(2)
            if kind == "encoder":
                layer = nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0, batch_first=True)
                self.stack = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            else:
                self.stack = nn.TransformerDecoder(nn.TransformerDecoderLayer(2, 1, 4, dropout=0.0, batch_first=True), 2)
        self.kind, self.mask = kind, nn.Parameter(mask.clone(), requires_grad=False)

    def loss(self, batch):
        x, y = batch
        x_BTC = x.view(-1, 3, 2)
        out_BTC = self.stack(x_BTC, self.mask) if self.kind == "encoder" else self.stack(x_BTC, x_BTC, tgt_mask=self.mask)
        return super().loss((out_BTC.flatten(1), y))


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
@pytest.mark.parametrize("mask", [CAUSAL, OTHER], ids=["causal", "other"])
def test_a_masked_transformer_trains_as_on_the_cpu(mask, kind):
    def run(side):
        module = Masked(mask, kind)
        side.trainer().fit(module, side.loader(), side.loader())
        return weights(module)

    want, got = on_both(run, TOGETHER)
    assert_same(got, want)


def test_transformers_are_as_before_afterwards():
    before = nn.TransformerEncoder.forward, nn.TransformerDecoder.forward
    with pytest.raises(ValueError, match="meanwhile"), masks_unread():
        raise ValueError("meanwhile")
    assert (nn.TransformerEncoder.forward, nn.TransformerDecoder.forward) == before
