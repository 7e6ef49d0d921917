"""executor.<parameter>.replicaGrouping: values of a parameter that differ between groups of replicas."""

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Mapping, Optional

import torch
from torch import nn

from softipu.capture.weights_in_place import replaced
from softipu.errors import Error
from softipu.poptorch.enums import CommGroupType, VariableRetrievalMode
from softipu.poptorch.weights import wrapped_weights
from softipu.runtime.replica_groups import ReplicaGroups


class GroupableParameter(nn.Parameter):
    """A parameter of an inference model that is not compiled yet, in the same memory, on which groups can be declared."""

    replicaGrouping: Callable[[CommGroupType, int, VariableRetrievalMode], None]


def groupable(parameter: nn.Parameter, declare: Callable[[CommGroupType, int, VariableRetrievalMode], None]) -> Any:
    """``parameter`` with a ``replicaGrouping`` that calls ``declare``."""
    view = torch.Tensor._make_subclass(GroupableParameter, parameter.detach(), parameter.requires_grad)
    view.replicaGrouping = declare
    return view


def read_groups(
    name: str, parameter: torch.Tensor, n_replicas: int, kind: CommGroupType, shards: int, retrieval: VariableRetrievalMode
) -> Optional[ReplicaGroups]:
    """The groups that a call of replicaGrouping asks for; None when all replicas share one value.

    Raises:
        ValueError: wrong types, or a number of shards that does not divide the replicas.
        Error: a scalar parameter, or a first dimension that is not the number of groups.
    """
    if not isinstance(kind, CommGroupType):
        raise ValueError(f"replicaGrouping needs a poptorch.CommGroupType, given {kind!r}.")
    if not isinstance(retrieval, VariableRetrievalMode):
        raise ValueError(f"replicaGrouping needs a poptorch.VariableRetrievalMode, given {retrieval!r}.")
    if kind == CommGroupType.All:
        return None
    size = 1 if kind == CommGroupType.NoGrouping else shards
    if not isinstance(size, int) or not 1 <= size <= n_replicas or n_replicas % size:
        raise ValueError(
            f"replicaGrouping of '{name}': the size of a group must divide the replication factor ({n_replicas}), given {shards!r}."
        )
    if parameter.dim() == 0:
        raise Error(
            f"The parameter '{name}' is a scalar and cannot be grouped by replicas: its first dimension holds one value for each group."
        )
    groups = ReplicaGroups(n_replicas, size, kind == CommGroupType.Orthogonal, retrieval == VariableRetrievalMode.AllReplicas)
    if parameter.shape[0] != groups.n_groups:
        raise Error(
            f"The parameter '{name}' has {parameter.shape[0]} values along its first dimension, but {n_replicas} replicas in groups of "
            f"{size} make {groups.n_groups} groups. Give it one value for each group."
        )
    return groups


@contextmanager
def one_group(module: nn.Module, groups: Mapping[str, ReplicaGroups]) -> Iterator[None]:
    """Runs with every grouped parameter replaced by the value of its first group: what one replica sees."""
    if not groups:
        yield
        return
    tensors: Dict[int, torch.Tensor] = {id(t): t for t in [*module.parameters(), *module.buffers()]}
    for name, parameter in module.named_parameters():
        if name in groups:
            first = wrapped_weights.plain(parameter)[0].clone()
            tensors[id(parameter)] = nn.Parameter(first, requires_grad=parameter.requires_grad)
    with replaced(module, tensors):
        yield


def to_groups(groups: ReplicaGroups, value: torch.Tensor) -> torch.Tensor:
    """A host value [n_groups, ...], or [n_replicas, ...] as ``AllReplicas`` reads it, as one with a value for each group."""
    if value.shape[0] == groups.n_groups:
        return value
    firsts = [next(r for r in range(groups.n_replicas) if groups.group_of(r) == group) for group in range(groups.n_groups)]
    return value[firsts]
