"""Gradient clipping by norm on the device; what it cannot do is refused."""

import pytest
import torch

from tests.lightning_ipu.trainer.oracle import ALONE, TOGETHER, WAYS, Net, Side, Way, assert_same, data, on_both, weights


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_clipping_by_norm_gives_the_cpus_weights(optimizer, way):
    class Clipped(Net):
        def configure_optimizers(self):
            return optimizer(self.parameters(), lr=0.05, **({"momentum": 0.9} if optimizer is torch.optim.SGD else {"eps": 1e-4}))

    def run(side, clip=0.1):
        module = Clipped()
        side.trainer(gradient_clip_val=clip).fit(module, side.loader(data(48)))
        return weights(module)

    want, got = on_both(run, way)
    assert_same(got, want)
    if way == ALONE:
        assert float((want - run(Side("cpu"), clip=None)).norm()) > 1e-3


def test_clipping_changes_nothing_below_the_limit():
    def run(side):
        module = Net()
        side.trainer(gradient_clip_val=1e6).fit(module, side.loader())
        return weights(module)

    want, got = on_both(run, TOGETHER)
    assert_same(got, want)


def test_clipping_by_value_is_refused_or_the_cpus():
    def run(side):
        module = Net()
        side.trainer(gradient_clip_val=0.01, gradient_clip_algorithm="value").fit(module, side.loader())
        return weights(module)

    with pytest.raises(Exception, match=r"gradient_clip_algorithm='value'.*clips by norm.*Use gradient_clip_algorithm='norm'"):
        run(Side("ipu", Way(replicas=2)))


def test_clipping_with_an_optimizer_that_cannot_is_refused():
    class Other(Net):
        def configure_optimizers(self):
            return torch.optim.RMSprop(self.parameters(), lr=0.01)

    with pytest.raises(Exception, match=r"gradient_clip_val=0.5\) with RMSprop: .*SGD, Adam, AdamW only"):
        Side("ipu").trainer(gradient_clip_val=0.5).fit(Other(), Side("ipu").loader())


def test_clipping_of_the_users_own_is_refused_by_name():
    class Own(Net):
        def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
            self.clip_gradients(optimizer, gradient_clip_val=0.5, gradient_clip_algorithm="norm")

    with pytest.raises(Exception, match=r"Own overrides configure_gradient_clipping.*gradient_clip_val"):
        Side("ipu").trainer().fit(Own(), Side("ipu").loader())
