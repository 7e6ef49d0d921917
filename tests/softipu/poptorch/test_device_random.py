"""Random numbers belong to the device."""

import torch
from torch import nn

from softipu import poptorch


class Noise(nn.Module):
    def forward(self, x):
        return torch.rand_like(x), nn.functional.dropout(torch.ones_like(x), 0.5, training=True)


def run(seed=None, d=1, r=1, calls=1):
    options = poptorch.Options().deviceIterations(d).replicationFactor(r)
    if seed is not None:
        options.randomSeed(seed)
    executor = poptorch.inferenceModel(Noise(), options)
    return [executor(torch.zeros(d * r, 50)) for _ in range(calls)], executor


def test_same_seed_gives_the_same_numbers_call_after_call():
    first, _ = run(seed=3, calls=2)
    second, _ = run(seed=3, calls=2)
    for a, b in zip(first, second):
        assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


def test_calls_micro_batches_and_replicas_never_share_a_mask():
    outputs, _ = run(seed=3, d=3, r=2, calls=2)
    rows = torch.cat([o[0] for o in outputs])
    assert len({tuple(row.tolist()) for row in rows}) == len(rows)


def test_other_seeds_give_other_numbers():
    assert not torch.equal(run(seed=3)[0][0][0], run(seed=4)[0][0][0])


def test_two_draws_in_one_step_differ():
    (value,), _ = run(seed=3)
    assert not torch.equal((value[0] > 0.5).float() * 2, value[1])


def test_the_hosts_generator_is_not_touched():
    torch.manual_seed(0)
    _, executor = run(d=2)
    state = torch.get_rng_state()
    executor(torch.zeros(2, 50))
    assert torch.equal(state, torch.get_rng_state())


def test_setting_rng_state_replays_the_stream():
    _, executor = run(seed=5)
    state = executor.rng_state
    first = executor(torch.zeros(1, 50))
    executor.rng_state = state
    assert torch.equal(first[0], executor(torch.zeros(1, 50))[0])


def test_dropout_follows_the_mode_at_compile_time():
    model = nn.Dropout(0.5)
    executor = poptorch.inferenceModel(model)
    x = torch.ones(1, 200)
    assert (executor(x) == 0).any()
    model.eval()
    assert (executor(x) == 0).any()
    assert not (poptorch.inferenceModel(model)(x) == 0).any()


def test_dropout_keeps_its_rate_and_gradient_mask():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(1000))

        def forward(self, x):
            kept = nn.functional.dropout(self.w + x, 0.25)
            return poptorch.identity_loss(kept.sum(), "none"), kept

    model = Net()
    executor = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=1.0))
    _, kept = executor(torch.ones(1000))
    assert 0.2 < (kept == 0).float().mean() < 0.3
    torch.testing.assert_close(model.w.detach(), -kept)


def test_coins_fall_in_half_too():
    class Coins(nn.Module):
        def forward(self, p):
            return torch.bernoulli(p)

    p = torch.tensor([[0.0, 0.5, 1.0]], dtype=torch.float16).expand(400, 3)
    coins = poptorch.inferenceModel(Coins(), poptorch.Options().randomSeed(1))(p)
    assert coins.dtype == torch.float16
    assert coins[:, 0].sum() == 0
    assert 150 < coins[:, 1].sum() < 250
    assert coins[:, 2].sum() == 400
