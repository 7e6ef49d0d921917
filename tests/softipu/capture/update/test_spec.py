"""What is read from an optimizer object, and what is refused."""

import warnings

import pytest
import torch

from softipu.capture.update import hyper_values, read_optimizer
from softipu.capture.update.kernels import has_fused
from softipu.poptorch import optim


def _parameters():
    return {"a": torch.nn.Parameter(torch.ones(2)), "b": torch.nn.Parameter(torch.ones(3))}


STOCK = {
    torch.optim.SGD: "SGD",
    torch.optim.Adam: "Adam",
    torch.optim.AdamW: "AdamW",
    torch.optim.RMSprop: "RMSprop",
    optim.SGD: "SGD",
    optim.Adam: "Adam",
    optim.AdamW: "AdamW",
    optim.RMSprop: "RMSprop",
    optim.LAMB: "LAMB",
}


@pytest.mark.parametrize("cls", STOCK, ids=lambda cls: f"{cls.__module__.split('.')[0]}.{cls.__name__}")
def test_stock_classes_are_known_by_their_rule_without_a_warning(cls):
    named = _parameters()
    optimizer = cls(named.values(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec = read_optimizer(optimizer, named)
    assert spec.rule == STOCK[cls]
    assert spec.groups[0].parameters == ("a", "b")
    assert hash(spec) == hash(read_optimizer(cls(named.values(), lr=0.7), named)), "numbers are not part of a spec"
    assert spec == read_optimizer(cls(named.values(), lr=0.7), named)


def test_adam_with_decoupled_weight_decay_is_adamw():
    named = _parameters()
    optimizer = torch.optim.Adam(named.values(), lr=0.1, weight_decay=0.1)
    for group in optimizer.param_groups:
        group["decoupled_weight_decay"] = True
    spec = read_optimizer(optimizer, named)
    assert (spec.rule, spec.groups[0].decoupled) == ("AdamW", True)


@pytest.mark.skipif(torch.__version__.startswith("2.0."), reason="its Adam has no such argument")
@pytest.mark.parametrize("of_group", [0, 1])
def test_decoupled_weight_decay_of_one_group(side_by_side, form, of_group):
    def make(parameters):
        groups = [{"params": parameters[:1]}, {"params": parameters[1:]}]
        groups[of_group]["decoupled_weight_decay"] = True
        return torch.optim.Adam(groups, lr=0.01, weight_decay=0.1)

    pair = side_by_side(make, form=form)
    pair.step(20)
    pair.check()


def test_unsupported_class_is_named_with_the_allowed_ones():
    named = _parameters()
    with pytest.raises(
        AssertionError, match=r"Unsupported optimizer type torch\.optim\.adagrad\.Adagrad: .*SGD, Adam, AdamW and RMSprop.*LAMB"
    ):
        read_optimizer(torch.optim.Adagrad(named.values()), named)


@pytest.mark.parametrize("cls", [torch.optim.Adam, torch.optim.AdamW, optim.Adam, optim.AdamW])
def test_amsgrad_is_refused(cls):
    named = _parameters()
    with pytest.raises(ValueError, match="Only non-amsgrad Adam/AdamW optimizers are supported: group 0"):
        read_optimizer(cls(named.values(), amsgrad=True), named)


@pytest.mark.parametrize("cls", [torch.optim.SGD, torch.optim.Adam, optim.AdamW, optim.RMSprop])
def test_maximize_is_refused(cls):
    named = _parameters()
    with pytest.raises(ValueError, match="maximize=True. Negate the loss"):
        read_optimizer(cls(named.values(), lr=0.1, maximize=True), named)


@pytest.mark.parametrize("parent", [torch.optim.SGD, torch.optim.Adam, optim.SGD, optim.LAMB])
def test_subclass_that_overrides_step_is_refused(parent):
    class Mine(parent):
        def step(self, closure=None):
            return super().step(closure)

    named = _parameters()
    with pytest.raises(AssertionError, match=f"Mine overrides step.*{parent.__name__}'s rule instead"):
        read_optimizer(Mine(named.values(), lr=0.1), named)


@pytest.mark.parametrize("parent", [torch.optim.SGD, torch.optim.AdamW, optim.AdamW, optim.LAMB])
@pytest.mark.parametrize("parent_first", [True, False], ids=["parent made before", "parent never made"])
def test_subclass_without_step_warns_and_has_its_parents_rule(parent, parent_first):
    # torch wraps step() of every class on its first instance; that must not look like an override.
    class Middle(parent):
        pass

    class Mine(Middle):
        def __init__(self, params, lr):
            super().__init__(params, lr=lr)

    named = _parameters()
    if parent_first:
        Middle(named.values(), lr=0.1)
    optimizer = Mine(named.values(), lr=0.1)
    with pytest.warns(UserWarning, match=f"Mine is a subclass of {parent.__name__}"):
        assert read_optimizer(optimizer, named).rule == STOCK[parent]


def test_learning_rate_schedulers_wrap_step_without_making_it_an_override():
    named = _parameters()
    optimizer = torch.optim.SGD(named.values(), lr=0.1)
    torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    assert read_optimizer(optimizer, named).rule == "SGD"


def test_only_parameters_of_the_step_are_in_the_spec_and_keep_their_positions():
    named = _parameters()
    others = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": [others[0], named["b"]]}, {"params": [others[1]]}], lr=0.1)
    first, second = read_optimizer(optimizer, named).groups
    assert (first.parameters, first.positions) == (("b",), (1,))
    assert second.parameters == ()


def test_tied_parameters_count_once_by_their_first_name():
    shared = torch.nn.Parameter(torch.ones(2))
    named = {"embedding": shared, "head": shared}
    assert read_optimizer(torch.optim.SGD([shared], lr=0.1), named).groups[0].parameters == ("embedding",)


def test_options_that_only_speed_up_a_gpu_do_not_matter():
    named = _parameters()
    plain = read_optimizer(torch.optim.Adam(named.values()), named)
    assert read_optimizer(torch.optim.Adam(named.values(), foreach=True), named) == plain
    assert read_optimizer(torch.optim.Adam(named.values(), differentiable=True), named) == plain


def test_groups_with_different_centered_are_refused():
    named = _parameters()
    groups = [{"params": [named["a"]], "centered": True}, {"params": [named["b"]]}]
    with pytest.raises(AssertionError, match=r"same value for the 'centered' attribute \(Group 0: True / Group 1: False\)"):
        read_optimizer(torch.optim.RMSprop(groups), named)


def test_accumulator_types_other_than_half_and_float_are_refused():
    named = _parameters()
    optimizer = optim.Adam(named.values())
    optimizer.accum_type = torch.float64
    with pytest.raises(ValueError, match="accum_type must be set to either torch.float16 or torch.float32, not torch.float64"):
        read_optimizer(optimizer, named)


def test_dampening_counts_only_with_momentum():
    named = _parameters()
    group = read_optimizer(torch.optim.SGD(named.values(), lr=0.1, dampening=0.5), named).groups[0]
    assert (group.momentum, group.dampening) == (False, False)


def test_values_are_read_in_the_order_of_their_names():
    named = _parameters()
    optimizer = torch.optim.Adam(
        [{"params": [named["a"]], "lr": 0.5}, {"params": [named["b"]], "betas": (0.1, 0.2)}], lr=0.25, eps=0.125, weight_decay=2.0
    )
    assert hyper_values(optimizer, read_optimizer(optimizer, named)) == (0.5, 0.9, 0.999, 0.125, 2.0, 0.25, 0.1, 0.2, 0.125, 2.0)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("lr", "fast", "Expected a number for lr but got 'fast'"),
        ("betas", [0.9, 0.99], r"Expected a pair for betas but got \[0.9, 0.99\]"),
        ("betas", (0.9, "x"), r"Expected a number for betas\[1\] but got 'x'"),
        ("eps", torch.ones(2), "Expected a number for eps"),
    ],
)
def test_values_that_are_no_numbers_are_refused(key, value, message):
    named = _parameters()
    optimizer = torch.optim.Adam(named.values())
    spec = read_optimizer(optimizer, named)
    optimizer.param_groups[0][key] = value
    with pytest.raises(AssertionError, match=message):
        hyper_values(optimizer, spec)


def test_a_group_added_later_needs_a_new_update():
    named = _parameters()
    optimizer = torch.optim.SGD([named["a"]], lr=0.1)
    spec = read_optimizer(optimizer, named)
    optimizer.add_param_group({"params": [named["b"]]})
    with pytest.raises(AssertionError, match="has 2 parameter groups, but the update was built for 1"):
        hyper_values(optimizer, spec)


def test_fused_kernels_are_found_by_trying():
    assert has_fused("_fused_adam_") is not torch.__version__.startswith("2.0.")
    assert not has_fused("_fused_unheard_of_")
