"""Random numbers, drawn by the tiles' own generators."""

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import bits_of, result, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "random"


@work_rule(
    *"""
    softipu::seeded bernoulli bernoulli_ rand randn randint randperm rand_like randn_like randint_like uniform_ uniform normal_
    normal random_ exponential_ exponential native_dropout multinomial rrelu_with_noise rrelu_with_noise_
    rrelu_with_noise_functional poisson log_normal_ geometric_ cauchy_
    """.split()
)
def draw(node: Node) -> Work:
    """One number per element of the result."""
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.RANDOM, float(out.numel())),), bits_of(out), read, written, n_supersteps=1)


@work_rule("native_dropout_backward", "rrelu_with_noise_backward")
def dropout_backward(node: Node) -> Work:
    """The mask and the scale again."""
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), ((V.ADD, float(out.numel())),), bits_of(out), read, written, n_supersteps=1)
