"""A product with a bias compiles as a product and a sum."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from softipu.runtime.compiled.functional import functional

aten = torch.ops.aten


def lowered(run, inputs):
    with torch.no_grad():
        graph_module = functional(make_fx(run)(*inputs), inputs).graph_module
        return {n.target for n in graph_module.graph.nodes}, graph_module(*inputs)


def test_a_bias_vector_is_added_outside_the_product():
    bias, a, b = torch.randn(5), torch.randn(4, 3), torch.randn(3, 5)
    targets, results = lowered(lambda bias, a, b: [aten.addmm.default(bias, a, b)], [bias, a, b])
    assert aten.mm.default in targets and aten.addmm.default not in targets
    torch.testing.assert_close(results[0], a @ b + bias)


@pytest.mark.parametrize("kwargs", [{"beta": 0.5}, {"alpha": 2.0}])
def test_factors_are_kept(kwargs):
    bias, a, b = torch.randn(5), torch.randn(4, 3), torch.randn(3, 5)
    _, results = lowered(lambda bias, a, b: [aten.addmm.default(bias, a, b, **kwargs)], [bias, a, b])
    torch.testing.assert_close(results[0], kwargs.get("alpha", 1.0) * (a @ b) + kwargs.get("beta", 1.0) * bias)
