"""Optimizer state: PopART's names on the device, torch's format outside."""

import pytest
import torch

from softipu.capture.update import build_update, carry_state, export_state, import_state, new_state, read_optimizer
from softipu.poptorch import optim

CASES = {
    "SGD": (lambda p: torch.optim.SGD(p, lr=0.01), []),
    "SGD momentum": (lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), ["Accl1"]),
    "SGD dampening": (lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.3), ["Accl1", "Step"]),
    "SGD combined": (lambda p: optim.SGD(p, lr=0.01, momentum=0.9, use_combined_accum=True), ["Accl"]),
    "Adam": (lambda p: torch.optim.Adam(p, lr=0.01), ["Accl1", "Accl2", "Step"]),
    "AdamW": (lambda p: torch.optim.AdamW(p, lr=0.01), ["Accl1", "Accl2", "Step"]),
    "RMSprop": (lambda p: torch.optim.RMSprop(p, lr=0.01), ["Accl1", "Step"]),
    "RMSprop full": (lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True, eps=1e-3), ["Accl1", "Accl2", "Accl3", "Step"]),
    "LAMB": (lambda p: optim.LAMB(p, lr=0.01), ["Accl1", "Accl2", "Step"]),
}
each = pytest.mark.parametrize(("make", "slots"), CASES.values(), ids=list(CASES))


@each
def test_states_are_named_as_in_popart(side_by_side, make, slots):
    pair = side_by_side(make)
    assert sorted(pair.state) == sorted(f"{slot}___{name}" for slot in slots for name in pair.device)
    assert pair.update.names("state") == tuple(pair.state)


@each
def test_exported_state_is_torchs(side_by_side, form, make, slots):
    pair = side_by_side(make, form=form)
    pair.step(7)
    exported, expected = pair.exported(), torch.optim.Optimizer.state_dict(pair.optimizer)
    assert exported["param_groups"] == expected["param_groups"]
    # Plain SGD of torch 2.0 keeps entries with nothing in them.
    filled = {i: {k: v for k, v in entry.items() if v is not None} for i, entry in expected["state"].items()}
    filled = {i: entry for i, entry in filled.items() if entry}
    assert list(exported["state"]) == list(filled)
    for index, entry in filled.items():
        assert set(exported["state"][index]) == set(entry)
        for key, value in entry.items():
            found = exported["state"][index][key]
            assert type(found) is type(value)
            if isinstance(value, torch.Tensor):
                assert (found.dtype, found.shape) == (value.dtype, value.shape)
                assert (found - value).abs().max() <= 2e-6 * value.abs().max()
            else:
                assert found == value


@each
def test_a_run_goes_on_exactly_after_export_and_import(side_by_side, form, make, slots):
    straight = side_by_side(make, form=form)
    straight.step(5)
    saved = straight.exported()
    resumed = side_by_side(make, form=form)
    resumed.random = torch.Generator()
    resumed.random.set_state(straight.random.get_state())
    for name, t in straight.device.items():
        resumed.device[name].copy_(t)
    resumed.state = import_state(resumed.update, saved)
    straight.step(5)
    for name, p in resumed.host.items():  # so that only the device's numbers count
        p.data.copy_(resumed.device[name])
    resumed.step(5)
    for name in straight.device:
        assert torch.equal(straight.device[name], resumed.device[name])


@each
def test_torch_goes_on_from_an_exported_state(side_by_side, make, slots):
    pair = side_by_side(make)
    pair.step(5)
    other = make([torch.nn.Parameter(t.clone()) for t in pair.device.values()])
    torch.optim.Optimizer.load_state_dict(other, pair.exported())
    weights = other.param_groups[0]["params"]
    for _ in range(5):
        gradients = pair.gradients()
        for weight, g in zip(weights, gradients.values()):
            weight.grad = g.clone()
        other.step()
        pair.step_device(gradients)
    for weight, t in zip(weights, pair.device.values()):
        assert (weight.detach() - t).abs().max() <= 1e-6 * t.abs().max()


@each
@pytest.mark.parametrize("whole", [True, False], ids=["optimizer", "state_dict"])
def test_the_device_goes_on_from_a_run_on_the_host(side_by_side, form, make, slots, whole):
    pair = side_by_side(make, form=form)
    for _ in range(4):
        for name, g in pair.gradients().items():
            pair.host[name].grad = g
        pair.optimizer.step()
    for name, p in pair.host.items():
        pair.device[name].copy_(p.detach())
    pair.state = import_state(pair.update, pair.optimizer if whole else torch.optim.Optimizer.state_dict(pair.optimizer))
    assert list(pair.state) == list(pair.update.names("state"))
    pair.step(10)
    pair.check()


def test_a_fresh_optimizer_exports_no_state(side_by_side):
    pair = side_by_side(lambda p: torch.optim.Adam(p))
    assert pair.exported()["state"] == {}


def test_importing_nothing_gives_the_first_state(side_by_side):
    pair = side_by_side(lambda p: optim.RMSprop(p, use_tf_variant=True, momentum=0.5))
    found = import_state(pair.update, torch.optim.Optimizer.state_dict(pair.optimizer))
    fresh = new_state(pair.update, pair.device)
    assert all(torch.equal(found[name], fresh[name]) for name in fresh)
    assert float(found["Accl1___fc.bias"][0]) == 1.0, "TensorFlow's squared averages start at 1"


def test_parameters_outside_the_step_keep_their_state_on_the_host():
    named = {"a": torch.nn.Parameter(torch.ones(2)), "b": torch.nn.Parameter(torch.ones(3))}
    optimizer = torch.optim.Adam(named.values(), lr=0.1)
    for p in named.values():
        p.grad = torch.ones_like(p)
    optimizer.step()
    update = build_update(read_optimizer(optimizer, named), {"b": named["b"].detach()})
    state = import_state(update, optimizer)
    state["Step___b"] += 1
    exported = export_state(update, state, optimizer)["state"]
    assert [float(exported[i]["step"]) for i in (0, 1)] == [1.0, 2.0]
    assert exported[0]["exp_avg"] is optimizer.state[named["a"]]["exp_avg"]


def test_positions_in_a_file_are_those_of_its_own_groups():
    named = {name: torch.nn.Parameter(torch.ones(1)) for name in "abc"}
    optimizer = torch.optim.SGD([{"params": [named["c"]]}, {"params": [named["a"], named["b"]]}], lr=0.1, momentum=0.9)
    update = build_update(read_optimizer(optimizer, named), named)
    file = {
        "state": {10: {"momentum_buffer": torch.tensor([3.0])}, 12: {"momentum_buffer": torch.tensor([2.0])}},
        "param_groups": [{"params": [10]}, {"params": [11, 12]}],
    }
    state = import_state(update, file)
    assert {name: float(t) for name, t in state.items()} == {"Accl1___c": 3.0, "Accl1___a": 0.0, "Accl1___b": 2.0}


def test_imported_state_is_a_copy_in_the_order_of_memory_that_kernels_read(side_by_side):
    pair = side_by_side(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    buffer = torch.randn(5, 6).t()
    file = torch.optim.Optimizer.state_dict(pair.optimizer)
    file["state"] = {0: {"momentum_buffer": buffer}}
    found = import_state(pair.update, file)["Accl1___fc.weight"]
    assert found.is_contiguous()
    assert torch.equal(found, buffer)
    found.zero_()
    assert buffer.abs().sum() > 0


def test_state_of_another_model_is_refused(side_by_side):
    pair = side_by_side(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    file = torch.optim.Optimizer.state_dict(pair.optimizer)
    file["state"] = {0: {"momentum_buffer": torch.zeros(9)}}
    with pytest.raises(ValueError, match=r"'momentum_buffer' of parameter 'fc.weight' has shape \(9,\), not \(6, 5\)"):
        import_state(pair.update, file)


def test_the_bare_state_attribute_is_refused(side_by_side):
    pair = side_by_side(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    pair.step()
    with pytest.raises(TypeError, match="Give the optimizer itself in place of optimizer.state"):
        import_state(pair.update, pair.optimizer.state)


def test_states_share_the_memory_order_of_their_parameters():
    w = {"a": torch.randn(4, 3, 2, 2).contiguous(memory_format=torch.channels_last)}
    update = build_update(read_optimizer(torch.optim.Adam(list(w.values())), w), w)
    assert new_state(update, w)["Accl1___a"].stride() == w["a"].stride()


def test_carried_state_keeps_tensors_and_starts_new_ones():
    w = {"a": torch.ones(2), "b": torch.ones(2)}
    optimizer = torch.optim.SGD([w["a"]], lr=0.1, momentum=0.9)
    old = new_state(build_update(read_optimizer(optimizer, w), w), w)
    old["Accl1___a"].fill_(5)
    optimizer.add_param_group({"params": [w["b"]], "dampening": 0.5})
    optimizer.param_groups[0]["dampening"] = 0.5
    new = carry_state(build_update(read_optimizer(optimizer, w), w), old, w)
    assert new["Accl1___a"] is old["Accl1___a"]
    assert {name: float(t.sum()) for name, t in new.items()} == {"Accl1___a": 10.0, "Step___a": 1.0, "Accl1___b": 0.0, "Step___b": 0.0}


def test_nothing_is_carried_to_another_class():
    w = {"a": torch.ones(2)}
    specs = [read_optimizer(cls([w["a"]], lr=0.1), w) for cls in (torch.optim.Adam, torch.optim.RMSprop, torch.optim.AdamW)]
    old = new_state(build_update(specs[0], w), w)
    old["Accl1___a"].fill_(-5)
    kept = [float(carry_state(build_update(spec, w), old, w, old_spec=specs[0])["Accl1___a"].sum()) for spec in specs]
    assert kept == [-10.0, 0.0, 0.0]
