"""Attributes that the device does not know are told once."""

import logging

import pytest
import torch

from softipu.poptorch import optim
from softipu.poptorch.optim.attribute_tracker import AttributeTracker


def _groups():
    return [{"params": [torch.nn.Parameter(torch.ones(1))]} for _ in range(2)]


@pytest.fixture
def messages(caplog):
    with caplog.at_level(logging.WARNING, logger="poptorch::python"):
        yield lambda: [record.getMessage() for record in caplog.records]


def test_attributes_added_after_the_first_time_warn_once_each(messages):
    tracker, optimizer = AttributeTracker(), optim.SGD(_groups(), lr=0.1)
    tracker.check(optimizer)
    optimizer.step_count = 0
    optimizer.defaults["colour"] = "red"
    for group in optimizer.param_groups:
        group["initial_lr"] = 0.1
    tracker.check(optimizer)
    tracker.check(optimizer)
    assert messages() == [
        "Ignoring unexpected default attribute in SGD optimizer: ['colour']",
        "Ignoring unexpected optimizer attribute in SGD optimizer: ['step_count']",
        "Ignoring unexpected group 0 attribute in SGD optimizer: ['initial_lr']",
        "Ignoring unexpected group 1 attribute in SGD optimizer: ['initial_lr']",
    ]


def test_attributes_that_were_there_the_first_time_are_silent(messages):
    tracker, optimizer = AttributeTracker(), optim.SGD(_groups(), lr=0.1)
    torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    tracker.check(optimizer)
    tracker.check(optimizer)
    assert messages() == []


def test_relaxed_checks_do_not_warn(messages):
    tracker, optimizer = AttributeTracker(relaxed=True), optim.SGD(_groups(), lr=0.1)
    tracker.check(optimizer)
    optimizer.param_groups[0]["initial_lr"] = 0.1
    tracker.check(optimizer)
    assert messages() == []


def test_what_torch_itself_keeps_is_known(messages):
    tracker = AttributeTracker()
    for cls in (torch.optim.SGD, torch.optim.Adam, optim.AdamW, torch.optim.RMSprop):
        optimizer = cls(_groups(), lr=0.1)
        optimizer.zero_grad()
        optimizer.step()
        tracker.check(optimizer)
    assert messages() == []


def test_velocity_scaling_is_unexpected_with_separate_accumulators(messages):
    tracker, optimizer = AttributeTracker(), optim.SGD(_groups(), lr=0.1)
    tracker.check(optimizer)
    optimizer.param_groups[1]["velocity_scaling"] = 4.0
    tracker.check(optimizer)
    assert messages() == ["Ignoring unexpected group 1 attribute in SGD optimizer: ['velocity_scaling']"]
