"""Every rule with its options gives torch.optim's weights: 1e-6 relative after 100 updates in float32."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

N_UPDATES = 100
rates = st.floats(1e-5, 0.05)
decays = st.just(0.0) | st.floats(1e-4, 0.2)
momenta = st.just(0.0) | st.floats(0.1, 0.98)
betas = st.tuples(st.floats(0.0, 0.95), st.floats(0.5, 0.9999))
epsilons = st.sampled_from([1e-8, 1e-6, 1e-3])
scales = st.sampled_from([1.0, 0.25, 1 / 3])
norms = st.sampled_from([float("inf"), 100.0, 0.5])
each_form = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=15, deadline=None)


@each_form
@given(lr=rates, momentum=momenta, dampening=st.just(0.0) | st.floats(0.1, 0.9), decay=decays, scale=scales, norm=norms)
def test_sgd(side_by_side, form, lr, momentum, dampening, decay, scale, norm):
    def make(parameters):
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum, dampening=dampening, weight_decay=decay)

    pair = side_by_side(make, form=form, gradient_scale=scale, max_grad_norm=norm)
    pair.step(N_UPDATES)
    pair.check()


@each_form
@given(lr=rates, momentum=st.floats(0.1, 0.98), decay=decays)
def test_sgd_nesterov(side_by_side, form, lr, momentum, decay):
    pair = side_by_side(lambda p: torch.optim.SGD(p, lr=lr, momentum=momentum, weight_decay=decay, nesterov=True), form=form)
    pair.step(N_UPDATES)
    pair.check()


@each_form
@given(decoupled=st.booleans(), lr=rates, betas=betas, eps=epsilons, decay=decays, scale=scales, norm=norms)
def test_adam_and_adamw(side_by_side, form, decoupled, lr, betas, eps, decay, scale, norm):
    rule = torch.optim.AdamW if decoupled else torch.optim.Adam
    pair = side_by_side(
        lambda p: rule(p, lr=lr, betas=betas, eps=eps, weight_decay=decay), form=form, gradient_scale=scale, max_grad_norm=norm
    )
    pair.step(N_UPDATES)
    pair.check()


@each_form
@given(
    # A normalised step of 0.05 with a momentum of 0.98 moves a weight by 2.5 per update: float32 itself then loses 1e-6.
    lr=st.floats(1e-5, 0.01),
    alpha=st.floats(0.5, 0.999),
    eps=epsilons,
    decay=decays,
    momentum=st.just(0.0) | st.floats(0.1, 0.9),
    scale=scales,
    norm=norms,
)
def test_rmsprop(side_by_side, form, lr, alpha, eps, decay, momentum, scale, norm):
    pair = side_by_side(
        lambda p: torch.optim.RMSprop(p, lr=lr, alpha=alpha, eps=eps, weight_decay=decay, momentum=momentum),
        form=form,
        gradient_scale=scale,
        max_grad_norm=norm,
    )
    pair.step(N_UPDATES)
    pair.check()


@each_form
@given(lr=st.floats(1e-5, 1e-3), alpha=st.floats(0.8, 0.999), decay=decays, momentum=momenta)
def test_centered_rmsprop(side_by_side, form, lr, alpha, decay, momentum):
    # A variance by difference of two averages loses digits on either side; a large epsilon keeps it away from zero.
    pair = side_by_side(
        lambda p: torch.optim.RMSprop(p, lr=lr, alpha=alpha, eps=1e-3, weight_decay=decay, momentum=momentum, centered=True), form=form
    )
    pair.step(N_UPDATES)
    pair.check()


@pytest.mark.parametrize("rule", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_parameter_groups_have_their_own_numbers(side_by_side, form, rule):
    def make(parameters):
        groups = [{"params": parameters[1:2], "lr": 0.03}, {"params": [parameters[0], parameters[2]], "weight_decay": 0.1}]
        return rule(groups, lr=0.01)

    pair = side_by_side(make, form=form)
    pair.step(N_UPDATES)
    pair.check()


@pytest.mark.parametrize("rule", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_numbers_changed_in_mid_run_hold_from_the_next_update(side_by_side, form, rule):
    pair = side_by_side(lambda p: rule(p, lr=0.01, weight_decay=0.1), form=form)
    for factor in (1.0, 0.1, 3.0):
        pair.optimizer.param_groups[0]["lr"] = 0.01 * factor
        pair.optimizer.param_groups[0]["weight_decay"] = 0.1 / factor
        graph = pair.update
        pair.rebuild()
        assert pair.update is graph, "a changed number must not build the graph anew"
        pair.step(20)
    pair.check()


@pytest.mark.parametrize("start", [0.0, 0.6])
@pytest.mark.parametrize("dampening", [0.0, 0.4])
def test_momentum_switched_on_and_off_in_mid_run(side_by_side, form, start, dampening):
    pair = side_by_side(lambda p: torch.optim.SGD(p, lr=0.01, momentum=start, dampening=dampening), form=form)
    for momentum in (start, 0.9, 0.5):
        pair.optimizer.param_groups[0]["momentum"] = momentum
        pair.rebuild()
        pair.step(10)
    pair.check()


def test_dampening_switched_on_in_mid_run_finds_a_velocity(side_by_side, form):
    pair = side_by_side(lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), form=form)
    pair.step(5)
    pair.optimizer.param_groups[0]["dampening"] = 0.5
    pair.rebuild()
    pair.step(5)
    pair.check()


@pytest.mark.parametrize("rule", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_one_cycle_schedule(side_by_side, form, rule):
    options = {torch.optim.SGD: {"momentum": 0.9}, torch.optim.RMSprop: {"momentum": 0.9}}.get(rule, {})
    pair = side_by_side(lambda p: rule(p, lr=1e-3, **options), form=form)
    schedule = torch.optim.lr_scheduler.OneCycleLR(pair.optimizer, max_lr=0.01, total_steps=N_UPDATES)
    graph = pair.update
    for _ in range(N_UPDATES - 1):
        pair.step()
        schedule.step()
        pair.rebuild()
    pair.check()
    assert pair.update is graph


@pytest.mark.skipif(torch.__version__.startswith("2.0."), reason="its optimizers take no tensor for a learning rate")
@pytest.mark.parametrize("rule", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_learning_rate_in_a_tensor(side_by_side, form, rule):
    pair = side_by_side(lambda p: rule(p, lr=torch.tensor(0.01)), form=form)
    pair.step(20)
    pair.optimizer.param_groups[0]["lr"].fill_(0.002)
    pair.step(20)
    pair.check()


@pytest.mark.parametrize("seed", range(5))
def test_fused_rules_are_bitwise_torchs_where_no_kernel_is_involved(side_by_side, seed):
    pair = side_by_side(lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, weight_decay=0.1), seed=seed)
    pair.step(20)
    for name, expected in pair.host.items():
        assert torch.equal(pair.device[name], expected.detach())
