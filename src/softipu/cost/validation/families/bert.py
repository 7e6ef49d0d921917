"""BERT (Devlin et al. 2018) from transformers, with the heads of its pre-training and of question answering.

As in graphcore/examples: queries, keys and values come from one product, and only masked tokens reach the vocabulary.
"""

from typing import Any, Dict, Tuple

import torch
import torch.nn.functional as F
from torch import nn
from transformers import BertConfig, BertForPreTraining, BertForQuestionAnswering, BertForSequenceClassification

from softipu.capture import mark_loss
from softipu.cost.validation.families.family import Model

# B: batch, S: sequence, H: hidden, N: heads, D: hidden / heads, M: masked tokens


class FusedSelfAttention(nn.Module):
    """Self-attention whose queries, keys and values are one product."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.n_heads = config.num_attention_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(self, hidden_BSH: torch.Tensor, mask_B11S: torch.Tensor) -> torch.Tensor:
        b, s, h = hidden_BSH.shape
        q_BNSD, k_BNSD, v_BNSD = (t.view(b, s, self.n_heads, -1).transpose(1, 2) for t in self.qkv(hidden_BSH).split(h, dim=-1))
        scores_BNSS = q_BNSD @ k_BNSD.transpose(-1, -2) / (h // self.n_heads) ** 0.5 + mask_B11S
        weights_BNSS = self.dropout(F.softmax(scores_BNSS, dim=-1))
        return (weights_BNSS @ v_BNSD).transpose(1, 2).reshape(b, s, h)


class Layer(nn.Module):
    """One encoder layer: the parts of transformers' around a fused attention."""

    def __init__(self, layer: Any, config: BertConfig) -> None:
        super().__init__()
        self.attention, self.attention_output = FusedSelfAttention(config), layer.attention.output
        self.intermediate, self.output = layer.intermediate, layer.output

    def forward(self, hidden_BSH: torch.Tensor, mask_B11S: torch.Tensor) -> torch.Tensor:
        hidden_BSH = self.attention_output(self.attention(hidden_BSH, mask_B11S), hidden_BSH)
        return self.output(self.intermediate(hidden_BSH), hidden_BSH)


class Encoder(nn.Module):
    """Embeddings and layers."""

    def __init__(self, bert: Any, config: BertConfig) -> None:
        super().__init__()
        self.embeddings = bert.embeddings
        self.layer = nn.ModuleList(Layer(layer, config) for layer in bert.encoder.layer)

    def forward(self, tokens_BS: torch.Tensor, types_BS: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
        hidden_BSH = self.embeddings(input_ids=tokens_BS, token_type_ids=types_BS)
        mask_B11S = (1.0 - mask_BS[:, None, None, :].to(hidden_BSH.dtype)) * -1e4
        for layer in self.layer:
            hidden_BSH = layer(hidden_BSH, mask_B11S)
        return hidden_BSH


class PreTraining(nn.Module):
    """Masked tokens and next sentence; in inference the scores of both."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        whole = BertForPreTraining(config)
        self.encoder, self.pooler, self.heads = Encoder(whole.bert, config), whole.bert.pooler, whole.cls

    def forward(self, *tensors: torch.Tensor) -> Any:
        tokens_BS, types_BS, mask_BS, positions_BM, *labels = tensors
        hidden_BSH = self.encoder(tokens_BS, types_BS, mask_BS)
        masked_BMH = hidden_BSH.gather(1, positions_BM[:, :, None].expand(-1, -1, hidden_BSH.shape[-1]))
        scores_BMV, relation_B2 = self.heads(masked_BMH, self.pooler(hidden_BSH))
        if not labels:
            return scores_BMV, relation_B2
        loss = F.cross_entropy(scores_BMV.flatten(0, 1), labels[0].flatten()) + F.cross_entropy(relation_B2, labels[1])
        mark_loss(loss, explicit=True)
        return loss


class Spans(nn.Module):
    """First and last token of an answer; in inference the scores of both."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        whole = BertForQuestionAnswering(config)
        self.encoder, self.heads = Encoder(whole.bert, config), whole.qa_outputs

    def forward(self, *tensors: torch.Tensor) -> Any:
        tokens_BS, types_BS, mask_BS, *labels = tensors
        start_BS, end_BS = self.heads(self.encoder(tokens_BS, types_BS, mask_BS)).unbind(-1)
        if not labels:
            return start_BS, end_BS
        loss = (F.cross_entropy(start_BS, labels[0]) + F.cross_entropy(end_BS, labels[1])) / 2
        mark_loss(loss, explicit=True)
        return loss


class Classes(nn.Module):
    """The class of a sequence."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        whole = BertForSequenceClassification(config)
        self.encoder, self.pooler, self.heads = Encoder(whole.bert, config), whole.bert.pooler, whole.classifier

    def forward(self, *tensors: torch.Tensor) -> Any:
        tokens_BS, types_BS, mask_BS, *labels = tensors
        scores_BC = self.heads(self.pooler(self.encoder(tokens_BS, types_BS, mask_BS)))
        return F.cross_entropy(scores_BC, labels[0]) if labels else scores_BC


def _config(model: Dict[str, Any]) -> BertConfig:
    return BertConfig(
        vocab_size=model["vocabulary"],
        hidden_size=model["hidden"],
        num_hidden_layers=model["layers"],
        num_attention_heads=model["heads"],
        intermediate_size=model["feed_forward"],
        max_position_embeddings=max(512, model["sequence_length"]),
        num_labels=model.get("classes", 2),
    )


def _paths(model: Dict[str, Any]) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    layers = tuple(f"encoder.layer.{i}" for i in range(model["layers"]))
    return layers, tuple(f"{path}.intermediate" for path in layers)


def _tokens(model: Dict[str, Any], micro_batch: int) -> Tuple[torch.Tensor, ...]:
    return tuple(torch.zeros(micro_batch, model["sequence_length"], dtype=torch.int64) for _ in range(3))


def pretraining(model: Dict[str, Any], micro_batch: int, training: bool) -> Model:
    """Sizes: layers, hidden, heads, feed_forward, vocabulary, sequence_length, masked_tokens."""
    layers, halves = _paths(model)
    masked = torch.zeros(micro_batch, model["masked_tokens"], dtype=torch.int64)
    inputs = (*_tokens(model, micro_batch), masked)
    if training:
        inputs = (*inputs, masked, torch.zeros(micro_batch, dtype=torch.int64))
    module = PreTraining(_config(model))
    # Pooler and head run one after the other where the embedding is.
    return Model(module, inputs, layers, halves, head="pooler", tied=True, serialized=("heads", "encoder.embeddings"))


def question_answering(model: Dict[str, Any], micro_batch: int, training: bool) -> Model:
    """Sizes: layers, hidden, heads, feed_forward, vocabulary, sequence_length."""
    layers, halves = _paths(model)
    labels = tuple(torch.zeros(micro_batch, dtype=torch.int64) for _ in range(2)) if training else ()
    inputs = (*_tokens(model, micro_batch), *labels)
    return Model(Spans(_config(model)), inputs, layers, halves, head="heads", serialized=("encoder.embeddings",))


def classification(model: Dict[str, Any], micro_batch: int, training: bool) -> Model:
    """Sizes: layers, hidden, heads, feed_forward, vocabulary, sequence_length, and classes (2)."""
    layers, halves = _paths(model)
    labels = (torch.zeros(micro_batch, dtype=torch.int64),) if training else ()
    inputs = (*_tokens(model, micro_batch), *labels)
    return Model(Classes(_config(model)), inputs, layers, halves, head="pooler", serialized=("encoder.embeddings",))
