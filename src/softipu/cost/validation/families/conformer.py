"""Conformer (Gulati et al. 2020): an encoder with convolutions, a Transformer decoder, and a CTC loss beside the decoder's.

Written after the paper and the published sizes: 80 features a frame, a quarter of the frames after two strided convolutions,
attention with relative positions, a depthwise convolution over 15 frames with layer normalisation behind it.
"""

from typing import Any, Dict

import torch
import torch.nn.functional as F
from torch import nn

from softipu.capture import mark_loss
from softipu.cost.validation.families.family import Model

# B: batch, T: frames, L: label tokens, H: hidden, N: heads, D: hidden / heads, V: vocabulary


def _feed_forward(hidden: int, inner: int) -> nn.Sequential:
    return nn.Sequential(
        nn.LayerNorm(hidden), nn.Linear(hidden, inner), nn.SiLU(), nn.Dropout(0.1), nn.Linear(inner, hidden), nn.Dropout(0.1)
    )


class Attention(nn.Module):
    """Attention of one sequence to another; with ``positions_TH`` scores have a second, relative term."""

    def __init__(self, hidden: int, heads: int, *, relative: bool) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))
        if relative:
            self.position = nn.Linear(hidden, hidden, bias=False)
            self.content_bias = nn.Parameter(torch.zeros(heads, hidden // heads))
            self.position_bias = nn.Parameter(torch.zeros(heads, hidden // heads))

    def _split(self, x_BTH: torch.Tensor) -> torch.Tensor:
        b, t, _ = x_BTH.shape
        return x_BTH.view(b, t, self.heads, -1)

    def forward(self, x_BTH: torch.Tensor, from_BSH: torch.Tensor, mask: torch.Tensor, *positions_TH: torch.Tensor) -> torch.Tensor:
        b, t, h = x_BTH.shape
        q_BTND = self._split(self.query(x_BTH))
        k_BNSD, v_BNSD = (self._split(project(from_BSH)).transpose(1, 2) for project in (self.key, self.value))
        if positions_TH:
            p_NSD = self.position(positions_TH[0]).view(-1, self.heads, h // self.heads).transpose(0, 1)
            scores = (q_BTND + self.content_bias).transpose(1, 2) @ k_BNSD.transpose(-1, -2)
            scores = scores + (q_BTND + self.position_bias).transpose(1, 2) @ p_NSD.transpose(-1, -2)
        else:
            scores = q_BTND.transpose(1, 2) @ k_BNSD.transpose(-1, -2)
        weights = F.softmax(scores / (h // self.heads) ** 0.5 + mask, dim=-1)
        return self.out((weights @ v_BNSD).transpose(1, 2).reshape(b, t, h))


class Convolution(nn.Module):
    """Gate, depthwise convolution, normalisation, Swish, all along the frames."""

    def __init__(self, hidden: int, kernel: int) -> None:
        super().__init__()
        self.widen = nn.Conv1d(hidden, 2 * hidden, 1)
        self.depthwise = nn.Conv1d(hidden, hidden, kernel, padding=kernel // 2, groups=hidden)
        self.norm, self.narrow = nn.LayerNorm(hidden), nn.Conv1d(hidden, hidden, 1)

    def forward(self, x_BTH: torch.Tensor) -> torch.Tensor:
        x_BHT = self.depthwise(F.glu(self.widen(x_BTH.transpose(1, 2)), dim=1))
        x_BTH = F.silu(self.norm(x_BHT.transpose(1, 2)))
        return self.narrow(x_BTH.transpose(1, 2)).transpose(1, 2)


class EncoderLayer(nn.Module):
    """Half a feed-forward, attention, convolution, half a feed-forward, each with a residual connection."""

    def __init__(self, hidden: int, heads: int, inner: int) -> None:
        super().__init__()
        self.before, self.after = _feed_forward(hidden, inner), _feed_forward(hidden, inner)
        self.norm_attention, self.attention = nn.LayerNorm(hidden), Attention(hidden, heads, relative=True)
        self.norm_convolution, self.convolution = nn.LayerNorm(hidden), Convolution(hidden, 15)
        self.norm, self.dropout = nn.LayerNorm(hidden), nn.Dropout(0.1)

    def forward(self, x_BTH: torch.Tensor, mask: torch.Tensor, positions_TH: torch.Tensor) -> torch.Tensor:
        x_BTH = x_BTH + 0.5 * self.before(x_BTH)
        y_BTH = self.norm_attention(x_BTH)
        x_BTH = x_BTH + self.dropout(self.attention(y_BTH, y_BTH, mask, positions_TH))
        x_BTH = x_BTH + self.dropout(self.convolution(self.norm_convolution(x_BTH)))
        return self.norm(x_BTH + 0.5 * self.after(x_BTH))


class DecoderLayer(nn.Module):
    """Attention to the labels so far, attention to the frames, a feed-forward."""

    def __init__(self, hidden: int, heads: int, inner: int) -> None:
        super().__init__()
        self.norm_self, self.self_attention = nn.LayerNorm(hidden), Attention(hidden, heads, relative=False)
        self.norm_source, self.source_attention = nn.LayerNorm(hidden), Attention(hidden, heads, relative=False)
        self.feed_forward, self.dropout = _feed_forward(hidden, inner), nn.Dropout(0.1)

    def forward(self, y_BLH: torch.Tensor, x_BTH: torch.Tensor, causal: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        z_BLH = self.norm_self(y_BLH)
        y_BLH = y_BLH + self.dropout(self.self_attention(z_BLH, z_BLH, causal))
        y_BLH = y_BLH + self.dropout(self.source_attention(self.norm_source(y_BLH), x_BTH, mask))
        return y_BLH + self.feed_forward(y_BLH)


class Subsampling(nn.Module):
    """Two strided convolutions: a quarter of the frames."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(nn.Conv2d(1, hidden, 3, 2), nn.ReLU(), nn.Conv2d(hidden, hidden, 3, 2), nn.ReLU())
        self.out, self.dropout = nn.Linear(hidden * (((features - 1) // 2 - 1) // 2), hidden), nn.Dropout(0.1)

    def forward(self, x_BTF: torch.Tensor) -> torch.Tensor:
        x_BHTF = self.convolutions(x_BTF[:, None])
        return self.dropout(self.out(x_BHTF.transpose(1, 2).flatten(2)))


class Conformer(nn.Module):
    """0.3 of the CTC loss of the encoder and 0.7 of the decoder's; in inference the encoder's scores."""

    def __init__(self, model: Dict[str, Any]) -> None:
        super().__init__()
        hidden, heads, inner = model["hidden"], model["heads"], model["feed_forward"]
        self.subsampling = Subsampling(80, hidden)
        self.encoder = nn.ModuleList(EncoderLayer(hidden, heads, inner) for _ in range(model["encoder_layers"]))
        self.norm, self.ctc = nn.LayerNorm(hidden), nn.Linear(hidden, model["vocabulary"])
        self.embedding = nn.Embedding(model["vocabulary"], hidden)
        self.decoder = nn.ModuleList(DecoderLayer(hidden, heads, inner) for _ in range(model["decoder_layers"]))
        self.norm_decoder, self.out = nn.LayerNorm(hidden), nn.Linear(hidden, model["vocabulary"])

    def forward(self, features_BTF: torch.Tensor, *labels_BL: torch.Tensor) -> Any:
        x_BTH = self.subsampling(features_BTF)
        b, t, h = x_BTH.shape
        positions_TH, mask = x_BTH.new_zeros(t, h), x_BTH.new_zeros(b, 1, 1, t)
        for layer in self.encoder:
            x_BTH = layer(x_BTH, mask, positions_TH)
        x_BTH = self.norm(x_BTH)
        log_BTV = F.log_softmax(self.ctc(x_BTH), dim=-1)
        if not labels_BL:
            return log_BTV
        y_BLH = self.embedding(labels_BL[0])
        length = y_BLH.shape[1]
        causal = x_BTH.new_zeros(1, 1, length, length)
        for layer in self.decoder:
            y_BLH = layer(y_BLH, x_BTH, causal, mask)
        scores_BLV = self.out(self.norm_decoder(y_BLH))
        attention_loss = F.cross_entropy(scores_BLV.flatten(0, 1), labels_BL[1].flatten())
        ctc_loss = F.ctc_loss(log_BTV.transpose(0, 1).float(), labels_BL[1], (t,) * b, (length,) * b, reduction="sum") / b
        loss = 0.7 * attention_loss + 0.3 * ctc_loss
        mark_loss(loss, explicit=True)
        return loss


def conformer(model: Dict[str, Any], micro_batch: int, training: bool) -> Model:
    """Sizes: encoder_layers, decoder_layers, hidden, heads, feed_forward, frames, vocabulary, and labels (48)."""
    features = torch.zeros(micro_batch, model["frames"], 80)
    labels = torch.zeros(micro_batch, model.get("labels", 48), dtype=torch.int64)
    inputs = (features, labels, labels) if training else (features,)
    encoder = tuple(f"encoder.{i}" for i in range(model["encoder_layers"]))
    decoder = tuple(f"decoder.{i}" for i in range(model["decoder_layers"]))
    begins = tuple((path.replace(".", " "), path) for path in encoder + decoder)
    return Model(Conformer(model), inputs, encoder + decoder, begins=begins)
