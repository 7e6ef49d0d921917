"""Losses."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.softipu.poptorch.operations.example import BATCH, POSITIVE, A, B, Example, Table, ex, ints, layer, x

TARGET = x(3, 4, low=0.1, high=0.9)
SIGNS = torch.tensor([1.0, -1.0, 1.0])
LOSSES: Table = {
    "nn.L1Loss": layer(nn.L1Loss, A, B),
    "nn.MSELoss": layer(nn.MSELoss, A, B),
    "nn.CrossEntropyLoss": layer(nn.CrossEntropyLoss, A, ints(3)),
    "nn.NLLLoss": layer(nn.NLLLoss, A, ints(3)),
    "nn.BCELoss": layer(nn.BCELoss, x(3, 4, low=0.1, high=0.9), TARGET),
    "nn.KLDivLoss": layer(lambda: nn.KLDivLoss(reduction="batchmean"), A, TARGET),
    "nn.PoissonNLLLoss": layer(nn.PoissonNLLLoss, A, B),
    "nn.HingeEmbeddingLoss": layer(nn.HingeEmbeddingLoss, A, torch.sign(A)),
    "nn.BCEWithLogitsLoss": layer(nn.BCEWithLogitsLoss, A, TARGET),
    "nn.SmoothL1Loss": layer(nn.SmoothL1Loss, A, B),
    "nn.SoftMarginLoss": ex(lambda a, t: nn.SoftMarginLoss()(a, t.to(a.dtype)), A, torch.sign(A).int()),
    "nn.CosineEmbeddingLoss": layer(nn.CosineEmbeddingLoss, A, B, SIGNS),
    "nn.MarginRankingLoss": layer(nn.MarginRankingLoss, x(3), x(3, low=-1.0), SIGNS),
    "nn.TripletMarginLoss": layer(nn.TripletMarginLoss, A, B, x(3, 4, low=-1.0, high=1.0)),
    "nn.CTCLoss": Example(
        lambda: lambda a, targets: F.ctc_loss(a.float().log_softmax(2), targets, torch.full((2,), 6), torch.full((2,), 3)),
        lambda: (x(6, 2, 5), ints(2, 3, high=4) + 1),
    ),
}

PLAIN = {
    "l1_loss": F.l1_loss, "mse_loss": F.mse_loss, "smooth_l1_loss": F.smooth_l1_loss, "huber_loss": F.huber_loss,
    "poisson_nll_loss": F.poisson_nll_loss, "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits, "kl_div": F.kl_div,
}  # fmt: skip
CLASSES = torch.tensor([0, 3, 2])
MAPS = torch.tensor([[1, 0, 2, 1], [2, 2, 0, 1]])
HITS = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 1]])
LABELS = torch.tensor([[0, 2, -1, 1], [1, -1, 0, 0], [3, 2, 1, 0]])
SIDES = torch.tensor([1, -1, 1])
WEIGHTS = (0.5, 2.0, 1.0, 0.25)


def weights(like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(WEIGHTS, dtype=like.dtype)


LOSS_VARIANTS: Table = {
    **{
        f"nn.functional.{name}, sum": ex(lambda a, b, function=function: function(a, b, reduction="sum"), A, TARGET)
        for name, function in PLAIN.items()
    },
    "nn.functional.mse_loss, of each": ex(lambda a, b: F.mse_loss(a, b, reduction="none"), A, TARGET),
    "nn.functional.kl_div, of each": ex(lambda a, b: F.kl_div(a, b, reduction="none"), A, TARGET),
    "nn.L1Loss, of whole numbers": ex(lambda a, i: F.l1_loss(a, i), A, ints(3, 4)),
    "nn.SmoothL1Loss, narrow": ex(lambda a, b: F.smooth_l1_loss(a, b, beta=0.25), A, B),
    "nn.HuberLoss, wide": ex(lambda a, b: F.huber_loss(a, b, delta=2.0), A, B),
    "nn.KLDivLoss, of logarithms": ex(lambda a, b: F.kl_div(a, b, reduction="sum", log_target=True), A, TARGET),
    "nn.PoissonNLLLoss, full": ex(
        lambda a, i: F.poisson_nll_loss(a, i.to(a.dtype), log_input=False, full=True), TARGET, ints(3, 4, high=5)
    ),
    "nn.CrossEntropyLoss, sum": ex(lambda a: F.cross_entropy(a, CLASSES, reduction="sum"), A),
    "nn.CrossEntropyLoss, weighted": ex(lambda a: F.cross_entropy(a, CLASSES, weights(a)), A),
    "nn.CrossEntropyLoss, smoothed": ex(lambda a: F.cross_entropy(a, CLASSES, weights(a), label_smoothing=0.25), A),
    "nn.CrossEntropyLoss, one ignored": ex(lambda a: F.cross_entropy(a, CLASSES, ignore_index=3), A),
    "nn.CrossEntropyLoss, of maps": ex(lambda a: F.cross_entropy(a, MAPS), BATCH),
    "nn.CrossEntropyLoss, of images": ex(lambda a: F.cross_entropy(a.unsqueeze(2), MAPS.unsqueeze(1), reduction="none"), BATCH),
    "nn.CrossEntropyLoss, of shares": ex(lambda a, b: F.cross_entropy(a, b.softmax(1)), A, B),
    "nn.NLLLoss, weighted": ex(lambda a: F.nll_loss(F.log_softmax(a, 1), CLASSES, weights(a), reduction="sum"), A),
    "nn.NLLLoss, ignored": ex(lambda a: F.nll_loss(F.log_softmax(a, 1), torch.tensor([0, -100, 2])), A),
    "nn.NLLLoss, of maps": ex(lambda a: F.nll_loss(F.log_softmax(a, 1).unsqueeze(2), MAPS.unsqueeze(1)), BATCH),
    "nn.BCELoss, weighted": ex(lambda a, b: F.binary_cross_entropy(a.sigmoid(), b, weights(a)), A, TARGET),
    "nn.BCEWithLogitsLoss, weighted": ex(
        lambda a, b: F.binary_cross_entropy_with_logits(a, b, weights(a), pos_weight=weights(a), reduction="sum"), A, TARGET
    ),
    "nn.BCEWithLogitsLoss, of a large logit": ex(lambda a: F.binary_cross_entropy_with_logits(a * 44, torch.full_like(a, 0.5)), A),
    "nn.HingeEmbeddingLoss, narrow": ex(lambda a: F.hinge_embedding_loss(a, 2 * HITS - 1, margin=0.5, reduction="sum"), A),
    "nn.SoftMarginLoss, sum": ex(lambda a: F.soft_margin_loss(a, (2 * HITS - 1).to(a.dtype), reduction="sum"), A),
    "nn.CosineEmbeddingLoss, with a margin": ex(lambda a, b: F.cosine_embedding_loss(a, b, SIDES, margin=-0.5, reduction="sum"), A, B),
    "nn.MarginRankingLoss, with a margin": ex(lambda a, b: F.margin_ranking_loss(a, b, SIDES[:, None], margin=0.25), A, B),
    "nn.TripletMarginLoss, swapped": ex(
        lambda a, b, c: F.triplet_margin_loss(a, b, c, margin=1.5, p=3, swap=True, reduction="sum"), A, B, x(3, 4, low=-1.0, high=1.0)
    ),
    "nn.MultiMarginLoss": ex(lambda a: F.multi_margin_loss(a, CLASSES), A),
    "nn.MultiMarginLoss, squared": ex(lambda a: F.multi_margin_loss(a, CLASSES, p=2, weight=weights(a), reduction="none"), A),
    "nn.MultiLabelMarginLoss": ex(lambda a: F.multilabel_margin_loss(a, LABELS), A),
    "nn.MultiLabelSoftMarginLoss": ex(lambda a: F.multilabel_soft_margin_loss(a, HITS.to(a.dtype), weights(a)), A),
    "nn.GaussianNLLLoss": ex(lambda a, b, c: F.gaussian_nll_loss(a, b, c, full=True), A, B, POSITIVE),
}
