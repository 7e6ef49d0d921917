"""Recurrent, linear and sparse layers."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.softipu.poptorch.operations.example import A, B, Table, ex, flat, ints, layer, x

LAYERS: Table = {
    "nn.RNN": layer(lambda: nn.RNN(4, 5), x(3, 2, 4)),
    "nn.GRU": layer(lambda: nn.GRU(4, 5), x(3, 2, 4)),
    "nn.LSTM": layer(lambda: nn.LSTM(4, 5), x(3, 2, 4)),
    "nn.Identity": layer(nn.Identity, A),
    "nn.Linear": layer(lambda: nn.Linear(4, 3), A),
    "nn.Bilinear": layer(lambda: nn.Bilinear(4, 4, 3), A, B),
    "nn.Embedding": layer(lambda: nn.Embedding(4, 3), ints(5)),
    "nn.EmbeddingBag": layer(lambda: nn.EmbeddingBag(4, 3), ints(5, 2)),
    "nn.functional.one_hot": ex(lambda i: F.one_hot(i, 4), ints(5), **flat()),
}


class Attending(nn.Module):
    """Attention of a sequence to itself, [B, S, 8], with a mask that hides what comes later, or none."""

    def __init__(self, *, masked: bool, weighted: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.masked, self.weighted = masked, weighted

    def forward(self, tokens: torch.Tensor) -> Any:
        mask = torch.ones(3, 3).triu(1).bool() if self.masked else None
        found = self.attention(tokens, tokens, tokens, attn_mask=mask, need_weights=self.weighted)
        return found if self.weighted else found[0]


SIZES = {"dim_feedforward": 6, "dropout": 0.0, "batch_first": True}
LAYER_VARIANTS: Table = {
    "nn.Linear, of one row": layer(lambda: nn.Linear(4, 3), A[0]),
    "nn.Linear, without bias": layer(lambda: nn.Linear(4, 3, bias=False), x(2, 3, 4)),
    "nn.Bilinear, without bias": layer(lambda: nn.Bilinear(4, 3, 2, bias=False), x(2, 3, 4), x(2, 3, 3)),
    "nn.Embedding, with padding": layer(lambda: nn.Embedding(4, 3, padding_idx=1), ints(2, 5)),
    "nn.EmbeddingBag, sums": layer(lambda: nn.EmbeddingBag(4, 3, mode="sum"), ints(5, 2)),
    "nn.EmbeddingBag, largest": layer(lambda: nn.EmbeddingBag(4, 3, mode="max"), ints(5, 2)),
    "nn.EmbeddingBag, weighted": ex(
        lambda table, weights, i: F.embedding_bag(i, table, mode="sum", per_sample_weights=weights), A[:, :3], x(5, 2), ints(5, 2, high=3)
    ),
    "nn.EmbeddingBag, by offsets": ex(
        lambda table, i: F.embedding_bag(i, table, torch.tensor([0, 2, 2, 5]), include_last_offset=True, mode="mean"), A, ints(5, high=3)
    ),
    "nn.MultiheadAttention": layer(lambda: Attending(masked=False, weighted=False), x(2, 3, 8)),
    "nn.MultiheadAttention, masked": layer(lambda: Attending(masked=True, weighted=False), x(2, 3, 8)),
    "nn.MultiheadAttention, with weights": layer(lambda: Attending(masked=True, weighted=True), x(2, 3, 8)),
    "nn.TransformerEncoderLayer": layer(lambda: nn.TransformerEncoderLayer(8, 2, **SIZES), x(2, 3, 8)),
    "nn.TransformerEncoderLayer, normalised first": layer(
        lambda: nn.TransformerEncoderLayer(8, 2, activation="gelu", norm_first=True, **SIZES), x(2, 3, 8)
    ),
    "nn.TransformerDecoderLayer": layer(lambda: nn.TransformerDecoderLayer(8, 2, **SIZES), x(2, 3, 8), x(2, 4, 8)),
    "nn.functional.scaled_dot_product_attention": ex(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), x(2, 3, 4), x(2, 3, 4, high=1.5), x(2, 3, 4, low=-1.5)
    ),
    "nn.Dropout, outside training": layer(lambda: nn.Dropout().eval(), A),
    "nn.AlphaDropout, outside training": layer(lambda: nn.AlphaDropout().eval(), A),
    "nn.Flatten": layer(nn.Flatten, x(2, 3, 4)),
    "nn.Unflatten": layer(lambda: nn.Unflatten(1, (2, 2)), A),
    "nn.CosineSimilarity": layer(lambda: nn.CosineSimilarity(1), A, B),
    "nn.PairwiseDistance": layer(lambda: nn.PairwiseDistance(2.0), A, B),
    "nn.PairwiseDistance, of the third power": layer(lambda: nn.PairwiseDistance(3.0), A, B),
    "nn.functional.normalize": ex(lambda a: F.normalize(a, dim=1), A),
    "nn.functional.pdist": ex(F.pdist, A, in_half=False),
}
