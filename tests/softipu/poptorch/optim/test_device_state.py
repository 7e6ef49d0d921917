"""State on a device as seen through state_dict() and load_state_dict()."""

import copy
import logging
import pickle

import pytest
import torch

from softipu.poptorch import optim

CLASSES = [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.LAMB]
each_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


class Device:
    """Holds one state and counts copies, as an executor would."""

    def __init__(self, value=0.0):
        self.state = {"Accl1___w": torch.full((2,), value)}
        self.param = {"learningRate___specific___w": torch.tensor(0.5)}
        self.n_pulls = self.n_pushes = 0
        self.changed = True

    def pull(self):
        if not self.changed:
            return None
        self.n_pulls += 1
        self.changed = False
        return {"ipu_state": {k: v.clone() for k, v in self.state.items()}, "ipu_param": dict(self.param)}

    def push(self, state):
        self.n_pushes += 1
        for own, given in ((self.state, state["ipu_state"]), (self.param, state["ipu_param"])):
            own.update({k: v.clone() for k, v in given.items() if k in own})
        self.changed = True

    def train(self):
        self.state["Accl1___w"] += 1
        self.changed = True


def _optimizer(cls=optim.Adam):
    return cls([torch.nn.Parameter(torch.ones(2))], lr=0.1)


def _pickled(optimizer):
    return pickle.loads(pickle.dumps(optimizer))


@each_class
def test_before_a_device_the_state_has_torchs_entries_and_two_that_are_none(cls):
    state = _optimizer(cls).state_dict()
    assert sorted(state) == ["ipu_param", "ipu_state", "param_groups", "state"]
    assert state["ipu_state"] is state["ipu_param"] is None
    assert state["param_groups"][0]["lr"] == 0.1


def test_reading_pulls_from_the_device_once_for_each_change(caplog):
    optimizer, device = _optimizer(), Device()
    optimizer._attach_device(device.pull, device.push)
    assert device.n_pulls == device.n_pushes == 0
    device.train()
    first = optimizer.state_dict()
    with caplog.at_level(logging.DEBUG, logger="poptorch::python"):
        again = optimizer.state_dict()
    assert first["ipu_state"]["Accl1___w"].tolist() == again["ipu_state"]["Accl1___w"].tolist() == [1.0, 1.0]
    assert device.n_pulls == 1
    assert "Using cached optimiser state dict" in caplog.text
    device.train()
    assert optimizer.state_dict()["ipu_state"]["Accl1___w"].tolist() == [2.0, 2.0]


def test_what_was_read_does_not_change_with_the_device_or_by_editing_another_copy():
    optimizer, device = _optimizer(), Device()
    optimizer._attach_device(device.pull, device.push)
    first = optimizer.state_dict()
    del first["ipu_state"]["Accl1___w"]
    assert "Accl1___w" in optimizer.state_dict()["ipu_state"]


@each_class
def test_what_is_loaded_is_pushed_at_the_next_use_of_the_device(cls):
    optimizer, device = _optimizer(cls), Device()
    optimizer._attach_device(device.pull, device.push)
    saved = optimizer.state_dict()
    saved["ipu_state"]["Accl1___w"] = torch.tensor([5.0, 6.0])
    saved["param_groups"][0]["lr"] = 0.7
    optimizer.load_state_dict(saved)
    assert device.n_pushes == 0
    assert optimizer.ipu_state_is_dirty
    optimizer._push_if_waiting()
    assert device.n_pushes == 1
    assert device.state["Accl1___w"].tolist() == [5.0, 6.0]
    assert optimizer.param_groups[0]["lr"] == 0.7
    assert not optimizer.ipu_state_is_dirty


def test_a_state_loaded_before_compiling_waits_for_the_device():
    source, device = _optimizer(), Device(3.0)
    source._attach_device(device.pull, device.push)
    saved = pickle.loads(pickle.dumps(source.state_dict()))
    optimizer = _optimizer()
    optimizer.load_state_dict(saved)
    assert optimizer.has_state()
    assert optimizer.ipu_state_is_dirty
    assert optimizer.state_dict()["ipu_state"]["Accl1___w"].tolist() == [3.0, 3.0]
    other = Device()
    optimizer._attach_device(other.pull, other.push)
    optimizer._push_if_waiting()
    assert other.n_pushes == 1
    assert other.state["Accl1___w"].tolist() == [3.0, 3.0]
    assert not optimizer.ipu_state_is_dirty


def test_an_incomplete_state_is_reported_as_loaded_until_the_device_fills_it():
    optimizer, device = _optimizer(), Device(4.0)
    device.state["Accl2___w"] = torch.zeros(2)
    optimizer._attach_device(device.pull, device.push)
    saved = optimizer.state_dict()
    saved["ipu_state"] = {"Accl1___w": torch.zeros(2)}
    optimizer.load_state_dict(saved)
    assert sorted(optimizer.state_dict()["ipu_state"]) == ["Accl1___w"]
    optimizer._push_if_waiting()
    device.train()
    assert sorted(optimizer.state_dict()["ipu_state"]) == ["Accl1___w", "Accl2___w"]


def test_states_without_tensors_of_a_device_can_be_loaded_and_wait_for_nothing():
    optimizer, device = _optimizer(), Device()
    optimizer.load_state_dict(_optimizer().state_dict())
    assert not optimizer.has_state()
    optimizer._attach_device(device.pull, device.push)
    assert device.n_pushes == 0


@each_class
def test_states_of_plain_torch_are_refused_and_change_nothing(cls):
    optimizer = _optimizer(cls)
    plain = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))], lr=0.9).state_dict()
    with pytest.raises(RuntimeError, match="Only IPU optimizer states can be loaded onto the IPU."):
        optimizer.load_state_dict(plain)
    assert optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("method", ["load_state_dict", "set_state_dict"])
def test_empty_states_are_refused(method):
    with pytest.raises(RuntimeError, match="Cannot load optimizer state dictionary because it is empty."):
        getattr(_optimizer(), method)({})


def test_detaching_keeps_the_state_for_the_next_device():
    optimizer, device = _optimizer(), Device()
    optimizer._attach_device(device.pull, device.push)
    device.train()
    optimizer._detach_device()
    device.train()
    assert optimizer.state_dict()["ipu_state"]["Accl1___w"].tolist() == [1.0, 1.0]
    other = Device()
    optimizer._attach_device(other.pull, other.push)
    optimizer._push_if_waiting()
    assert other.state["Accl1___w"].tolist() == [1.0, 1.0]
    optimizer._detach_device()
    optimizer._detach_device()


@each_class
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, _pickled], ids=["copy", "deepcopy", "pickle"])
def test_copies_have_the_attributes_and_the_state_but_no_device(cls, duplicate):
    optimizer, device = _optimizer(cls), Device()
    optimizer.loss_scaling = 16.0
    optimizer.accum_type = torch.float16
    optimizer.variable_attrs.markAsVariable("weight_decay")
    optimizer._attach_device(device.pull, device.push)
    device.train()
    twin = duplicate(optimizer)
    device.train()
    assert type(twin) is cls
    assert (twin.loss_scaling, twin.accum_type) == (16.0, torch.float16)
    assert not twin.variable_attrs.isConstant("weight_decay")
    assert twin.state_dict()["ipu_state"]["Accl1___w"].tolist() == [1.0, 1.0]
    assert twin.ipu_state_is_dirty, "whoever uses the copy uploads its state"
    assert optimizer.state_dict()["ipu_state"]["Accl1___w"].tolist() == [2.0, 2.0]
    for name in ("use_combined_accum", "max_grad_norm", "use_tf_variant", "bias_correction", "max_weight_norm"):
        assert getattr(twin, name, None) == getattr(optimizer, name, None)


def test_torch_save_and_load(tmp_path):
    optimizer, device = _optimizer(), Device(2.0)
    optimizer._attach_device(device.pull, device.push)
    torch.save({"optimizer": optimizer.state_dict()}, tmp_path / "c.pt")
    other = _optimizer()
    other.load_state_dict(torch.load(tmp_path / "c.pt")["optimizer"])
    assert other.state_dict()["ipu_state"]["Accl1___w"].tolist() == [2.0, 2.0]


def test_schedulers_go_on_from_a_loaded_state():
    optimizer = optim.Adam([torch.nn.Parameter(torch.ones(2))], lr=1.0)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    schedule.step()
    other = optim.Adam([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr"] == 0.5
    torch.optim.lr_scheduler.ExponentialLR(other, 0.5)
    assert other.param_groups[0]["lr"] == 0.5


def test_a_velocity_from_elsewhere_is_damped_at_once():
    """With dampening a device does not damp its first update; one with a loaded velocity is not the first."""
    pushed = {}
    optimizer = optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9, dampening=0.5)
    state = {"Accl1___w": torch.ones(2), "Accl1___fresh": torch.zeros(2), "Accl1___x": torch.ones(2), "Step___x": torch.tensor(7.0)}
    optimizer.set_state_dict({"ipu_state": state, "ipu_param": {}})
    optimizer._attach_device(lambda: None, lambda values: pushed.update(values["ipu_state"]))
    optimizer._push_if_waiting()
    assert {name: float(t) for name, t in pushed.items() if name.startswith("Step")} == {"Step___w": 1.0, "Step___x": 7.0}
    assert "Step___w" not in state
