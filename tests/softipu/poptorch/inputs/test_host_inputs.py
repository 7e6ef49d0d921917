"""Unusual inputs are used, and told about once."""

import torch
from torch import nn

from softipu import poptorch


def test_an_input_that_requires_a_gradient_is_detached(caplog):
    executor = poptorch.inferenceModel(nn.ReLU())
    x = torch.tensor([2.0], requires_grad=True)
    assert not executor(x).requires_grad
    executor(x)
    told = [r.getMessage() for r in caplog.records if "requires_grad" in r.getMessage()]
    assert told == [
        "Input tensor has requires_grad=True set. This tensor will be detached because backward pass via inputs is not supported. "
        "It is input input."
    ]
