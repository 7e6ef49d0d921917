"""Code that spares traced programs a look at values spares a captured step too."""

import torch

from lightning_ipu.step.said_to_trace import said_to_trace
from tests.lightning_ipu.trainer.oracle import Net, assert_same, on_both, weights


def test_a_step_that_looks_at_values_unless_it_is_traced_trains_as_on_the_cpu():
    class Advises(Net):
        def loss(self, batch):
            if not torch.jit.is_tracing() and bool((batch[0] == 0).any()):
                raise AssertionError("padding")
            return super().loss(batch)

    def run(side):
        module = Advises()
        side.trainer().fit(module, side.loader())
        return weights(module), torch.jit.is_tracing()

    want, got = on_both(run)
    assert_same(got, want)
    assert not want[1]


def test_torchs_own_code_is_not_told():
    code = "import torch\ndef asked():\n    return torch.jit.is_tracing()"
    own, other = {"__name__": "torch.functional"}, {"__name__": "transformers.modeling_utils"}
    exec(code, own)
    exec(code, other)
    with said_to_trace():
        assert (own["asked"](), other["asked"]()) == (False, True)
    assert not other["asked"]()
