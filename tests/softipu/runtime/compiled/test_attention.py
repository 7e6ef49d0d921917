"""Attention over short sequences compiles as products of matrices, with the numbers and the layout of PyTorch's kernel."""

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from softipu.runtime.compiled.functional import functional

needs_kernel = pytest.mark.skipif(
    not hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"), reason="this version of PyTorch has no kernel of its own"
)


def step(is_causal, scale=None):
    """Attention forward and backward: result and the gradients of queries, keys and values."""

    def run(q, k, v, grad):
        q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
        arguments = {"is_causal": is_causal, **({"scale": scale} if scale else {})}
        result = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **arguments)
        return [result.detach(), *torch.autograd.grad(result, (q, k, v), grad.transpose(1, 2))]

    return run


def examples(n_queries, n_keys, n_features=8):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, n, 3, n_features, generator=generator) for n in (n_queries, n_keys, n_keys, n_queries)]


def lowered(run, inputs):
    """The functional graph, after its results were compared with those of eager PyTorch in float64."""
    graph_module = make_fx(run)(*inputs)
    with torch.no_grad():
        found = functional(graph_module, inputs)
        results, original = found.graph_module(*inputs, *found.constants), graph_module(*inputs)
    for one, exact, other in zip(results, run(*[t.double() for t in inputs]), original):
        assert (one.double() - exact).abs().max() <= 1e-6 * exact.abs().max()
        assert all(one.stride(d) == other.stride(d) for d in range(one.dim()) if one.shape[d] > 1)
    return found.graph_module


def ops(graph_module):
    return {str(n.target) for n in graph_module.graph.nodes if "attention" in str(n.target)}


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("n_queries, n_keys", [(5, 5), (5, 7), (7, 5), (1, 32), (32, 32)])
def test_short_sequences_have_exact_numbers_and_the_kernels_strides(is_causal, n_queries, n_keys):
    assert not ops(lowered(step(is_causal), examples(n_queries, n_keys)))


@needs_kernel
def test_a_scale_is_kept():
    assert not ops(lowered(step(True, scale=0.25), examples(6, 6)))


@needs_kernel
def test_long_sequences_stay_with_the_kernel():
    assert len(ops(lowered(step(False), examples(33, 33)))) == 2


@needs_kernel
def test_a_backward_pass_finds_its_weights_through_views():
    def run(q, k, v, grad):
        q, k, v, grad = (t.transpose(1, 2) for t in (q, k, v, grad))
        result, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
        logsumexp = logsumexp.unsqueeze(0).squeeze(0)
        return [*torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, result, logsumexp, 0.0, True)]

    inputs = examples(6, 6)
    graph_module = make_fx(run)(*inputs)
    with torch.no_grad():
        found = functional(graph_module, inputs)
        assert not ops(found.graph_module)
        for one, other in zip(found.graph_module(*inputs, *found.constants), graph_module(*inputs)):
            assert (one - other).abs().max() <= 1e-6 * other.abs().max()


def test_weights_of_two_attentions_do_not_mix():
    def run(q, k, v, grad):
        first, second = step(True), step(False)
        return [*first(q, k, v, grad), *second(q * 2, k, v, grad)]

    assert not ops(lowered(run, examples(6, 6)))
