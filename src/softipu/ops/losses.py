"""Losses and their gradients."""

from typing import Tuple

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import bits_of, result, tensor, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "losses"


def _on_input(node: Node, position: int, kinds: Tuple[V, ...], n_supersteps: int) -> Work:
    x = tensor(node.args[position])
    assert x is not None
    read, written = traffic(node)
    return Work(_FAMILY, (), tuple((kind, float(x.numel())) for kind in kinds), bits_of(x), read, written, n_supersteps=n_supersteps)


@work_rule("nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss2d", "nll_loss_nd")
def nll(node: Node) -> Work:
    """Every row gives the element of its class."""
    target = tensor(node.args[1])
    assert target is not None
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.REDUCE, float(target.numel())),), 32, read, written, 4.0 * target.numel(), n_supersteps=3)


@work_rule("nll_loss_backward", "nll_loss2d_backward")
def nll_backward(node: Node) -> Work:
    """Zeros, and a number for the class of every row: an encoding as one-hot."""
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.COPY, float(out.numel())),), bits_of(out), read, written, n_supersteps=2)


@work_rule("mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss", "soft_margin_loss")
def pairwise(node: Node) -> Work:
    """A difference, a function of it, a sum."""
    return _on_input(node, 0, (V.ADD, V.SCALE, V.REDUCE), 3)


@work_rule("mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward", "soft_margin_loss_backward")
def pairwise_backward(node: Node) -> Work:
    """The difference again, times the gradient."""
    return _on_input(node, 1, (V.ADD, V.ADD), 1)


@work_rule("binary_cross_entropy", "binary_cross_entropy_with_logits")
def binary_cross_entropy(node: Node) -> Work:
    """Two logarithms and their weighted sum."""
    return _on_input(node, 0, (V.LOG, V.LOG, V.ADD, V.ADD, V.REDUCE), 3)


@work_rule("binary_cross_entropy_backward")
def binary_cross_entropy_backward(node: Node) -> Work:
    """(p - y) / (p (1 - p))."""
    return _on_input(node, 1, (V.ADD, V.ADD, V.DIVIDE), 1)


@work_rule("kl_div")
def kl_div(node: Node) -> Work:
    """y (log y - x)."""
    return _on_input(node, 0, (V.LOG, V.ADD, V.ADD, V.REDUCE), 3)


@work_rule("multilabel_margin_loss_forward", "multi_margin_loss")
def margin(node: Node) -> Work:
    """A difference to the element of the class, clipped, summed."""
    return _on_input(node, 0, (V.ADD, V.COMPARE, V.REDUCE), 4)


@work_rule("multilabel_margin_loss_backward", "multi_margin_loss_backward")
def margin_backward(node: Node) -> Work:
    """The mask of what was clipped."""
    return _on_input(node, 1, (V.ADD, V.COMPARE), 2)


@work_rule("_ctc_loss", "_cudnn_ctc_loss", "_use_cudnn_ctc_loss")
def ctc(node: Node) -> Work:
    """alpha over T frames and 2 L + 1 labels: three logarithmic additions each; frames depend on one another."""
    return _ctc(node, 0)


@work_rule("_ctc_loss_backward")
def ctc_backward(node: Node) -> Work:
    """beta in the same way, then the gradient of every frame and class."""
    return _ctc(node, 1)


def _ctc(node: Node, position: int) -> Work:
    log_probabilities = tensor(node.args[position])
    targets = tensor(node.args[position + 1])
    assert log_probabilities is not None and targets is not None
    frames, batch, classes = log_probabilities.shape[0], log_probabilities.shape[-2], log_probabilities.shape[-1]
    labels = 2 * (targets.shape[-1] if targets.dim() > 1 else targets.numel() // max(1, batch)) + 1
    cells = float(frames * batch * labels)
    read, written = traffic(node)
    vector = [(V.EXP, 3 * cells), (V.LOG, cells), (V.ADD, 3 * cells)]
    if position:
        vector.append((V.ADD, float(frames * batch * classes)))
    return Work(_FAMILY, (), tuple(vector), 32, read, written, n_supersteps=frames)
