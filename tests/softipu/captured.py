"""A training step of a model, captured without an executor, and the values of its inputs."""

import copy

import torch

from softipu.capture import capture
from softipu.capture.context import mark_loss
from softipu.capture.random_ops import seed_random_ops
from softipu.graph import Role


def captured(model, batch):
    """The step before any pass."""

    def forward(tensors):
        loss = model(*tensors)
        mark_loss(loss, explicit=True)
        return [loss]

    return seed_random_ops(capture(model, forward, list(batch), training=True))


def inputs_of(step, model, batch, seed=None):
    """Inputs of ``step`` in order: the weights and buffers of a copy of ``model``, ``batch``, a loss scale of 1, and the seed."""
    model = copy.deepcopy(model)
    parameters, buffers, rest = iter(model.parameters()), iter(model.buffers()), iter(batch)
    made = []
    for value in step.inputs:
        if value.role is Role.PARAMETER:
            made.append(next(parameters).detach())
        elif value.role is Role.BUFFER:
            made.append(next(buffers))
        elif value.role is Role.INPUT:
            made.append(next(rest))
        elif value.role is Role.SEED:
            made.append(torch.zeros(value.shape, dtype=value.dtype) if seed is None else seed.to(value.dtype).reshape(value.shape))
        else:
            assert value.role is Role.LOSS_SCALE, value
            made.append(torch.ones(value.shape, dtype=value.dtype))
    return made
