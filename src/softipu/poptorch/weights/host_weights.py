"""A module's parameters and buffers on the host next to their values on the device: checked, read, written."""

from dataclasses import dataclass
from typing import Any, Dict

import torch
from torch import nn

from softipu.errors import Error
from softipu.poptorch.weights import wrapped_weights
from softipu.poptorch.weights.replica_grouping import to_groups
from softipu.runtime import DeviceMemory


@dataclass(frozen=True)
class HostWeights:
    """Plain tensors over the memory of a module's parameters and buffers, by name."""

    parameters: Dict[str, torch.Tensor]
    buffers: Dict[str, torch.Tensor]


def host_weights(module: nn.Module) -> HostWeights:
    """The module's tensors as the host has them; reading them does not bring them up to date."""
    return HostWeights(_plain(module.named_parameters()), _plain(module.named_buffers()))


def check_same_weights(module: nn.Module, memory: DeviceMemory) -> None:
    """Error: the module has other names or shapes of parameters and buffers than those on the device."""
    host = host_weights(module)
    now = {**host.parameters, **host.buffers}
    then = {*memory.parameters, *memory.buffers[0]}
    if then != set(now):
        raise Error(
            f"The module has other parameters and buffers than when it was compiled: new {sorted(set(now) - then)}, "
            f"gone {sorted(then - set(now))}. Call destroy() and wrap it again."
        )
    for name, tensor in now.items():
        on_device = memory.parameters[name] if name in memory.parameters else memory.buffers[0][name]
        groups = memory.groups.get(name)
        if groups is not None and groups.reads_all and tensor.shape[0] == groups.n_replicas:
            tensor = to_groups(groups, tensor)
        if on_device.shape != tensor.shape:
            raise Error(
                f"'{name}' has shape {list(tensor.shape)}, but the model was compiled with {list(on_device.shape)}. "
                "Call destroy() and wrap it again."
            )


def read_weights(module: nn.Module, memory: DeviceMemory) -> None:
    """Device to host. A parameter that is read from every replica grows by a leading axis of replicas."""
    host = host_weights(module)
    for name, groups in memory.groups.items():
        if groups.reads_all and host.parameters[name].shape[0] != groups.n_replicas:
            shape = (groups.n_replicas, *host.parameters[name].shape[1:])
            host.parameters[name] = wrapped_weights.resize(dict(module.named_parameters())[name], shape)
    memory.read(host.parameters, host.buffers)


def write_weights(module: nn.Module, memory: DeviceMemory) -> None:
    """Host to device. Of a parameter with one value for each group of replicas, the groups' values."""
    host = host_weights(module)
    of_groups = {name: to_groups(groups, host.parameters[name]) for name, groups in memory.groups.items()}
    memory.write({**host.parameters, **of_groups}, host.buffers)


def _plain(named: Any) -> Dict[str, torch.Tensor]:
    return {n: wrapped_weights.plain(t) for n, t in named}
