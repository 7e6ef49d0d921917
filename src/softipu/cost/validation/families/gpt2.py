"""GPT-2 (Radford et al. 2019) from transformers, with its language-modelling head."""

from typing import Any, Dict

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from softipu.cost.validation.families.family import Model


class LanguageModel(nn.Module):
    """Next-token loss; in inference the scores of the last token."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        whole = GPT2LMHeadModel(config)
        self.transformer, self.head = whole.transformer, whole.lm_head

    def forward(self, tokens_BS: torch.Tensor, *labels: torch.Tensor) -> Any:
        mask_BS = torch.ones_like(tokens_BS)
        hidden_BSH = self.transformer(input_ids=tokens_BS, attention_mask=mask_BS, use_cache=False)[0]
        scores_BSV = self.head(hidden_BSH if labels else hidden_BSH[:, -1:])
        return F.cross_entropy(scores_BSV.flatten(0, 1), labels[0].flatten()) if labels else scores_BSV


def gpt2(model: Dict[str, Any], micro_batch: int, training: bool) -> Model:
    """Sizes: layers, hidden, heads, feed_forward, vocabulary, sequence_length."""
    length = model["sequence_length"]
    config = GPT2Config(
        vocab_size=model["vocabulary"],
        n_positions=max(1024, length),
        n_embd=model["hidden"],
        n_layer=model["layers"],
        n_head=model["heads"],
        n_inner=model["feed_forward"],
        attn_implementation="eager",
    )
    tokens = torch.zeros(micro_batch, length, dtype=torch.int64)
    layers = tuple(f"transformer.h.{i}" for i in range(model["layers"]))
    halves = tuple(f"{path}.ln_2" for path in layers)
    inputs = (tokens, tokens) if training else (tokens,)
    return Model(LanguageModel(config), inputs, layers, halves, head="head", tied=True, serialized=("head", "transformer.wte"))
