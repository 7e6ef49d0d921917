"""MultiConv: settings, and misuse found while a model is captured."""

import pytest
import torch
from torch import nn

from softipu.errors import Error
from softipu.poptorch.blocks.scope import recording
from softipu.poptorch.enums import MultiConvPlanType
from softipu.poptorch.ops.multi_conv import MultiConv

x = torch.ones(1, 1, 4, 4)


def test_setters_chain_and_keep_one_value_or_a_list():
    multi = MultiConv().availableMemoryProportions((0.8, 0.7)).partialsTypes([torch.float, torch.half]).enableConvDithering(True)
    assert multi.planType(MultiConvPlanType.Parallel).perConvReservedTiles(120).cycleBackOff(0.4) is multi
    assert multi._available_memory_proportions == [0.8, 0.7] and multi._partials_types == [torch.float32, torch.float16]
    assert multi._enable_conv_ditherings == [True]


@pytest.mark.parametrize(
    "setter, value, error, message",
    [
        ("partialsTypes", "half", ValueError, "Invalid partials types. Expecting torch.float or torch.half, given 'half'"),
        ("planType", "parallel", AssertionError, "Invalid plan type! .* given 'parallel'"),
        ("availableMemoryProportions", 1, AssertionError, "Invalid available memory proportion"),
        ("availableMemoryProportions", [], AssertionError, "Invalid available memory proportion"),
        ("enableConvDithering", [True, 1], ValueError, "value must be bool or list of bools"),
        ("perConvReservedTiles", 1.5, AssertionError, "perConvReservedTiles needs an int, given 1.5"),
        ("cycleBackOff", 1, AssertionError, "cycleBackOff needs a float, given 1"),
    ],
)
def test_setters_check_their_types(setter, value, error, message):
    with pytest.raises(error, match=message):
        getattr(MultiConv(), setter)(value)


@pytest.mark.parametrize("layer", [nn.Conv2d(1, 2, 3), nn.ConvTranspose2d(1, 2, 3)])
def test_scope_changes_no_value(layer):
    with recording(), MultiConv():
        inside = layer(x)
    assert torch.equal(inside, layer(x))


def test_scope_without_a_convolution_is_an_error():
    with recording(), pytest.raises(Error, match="Unexpected end_multi_conv: no convolution ran inside"):
        with MultiConv():
            torch.relu(x)


def test_nested_scopes_are_an_error_and_leave_nothing_behind():
    with recording(), pytest.raises(Error, match="Nested poptorch.MultiConv is not supported"):
        with MultiConv():
            with MultiConv():
                pass
    with recording(), MultiConv():
        nn.functional.conv2d(x, torch.ones(1, 1, 2, 2))


def test_errors_inside_are_not_replaced():
    with recording(), pytest.raises(KeyError):
        with MultiConv():
            raise KeyError


def test_outside_a_capture_the_scope_does_nothing():
    with MultiConv(), MultiConv():
        torch.relu(x)


def test_scope_can_be_used_again():
    multi, layer = MultiConv(), nn.Conv2d(1, 1, 2)
    for _ in range(2):
        with recording(), multi:
            layer(x)
