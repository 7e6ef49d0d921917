"""Figures of the device for DeviceStatsMonitor: host time, bytes of weights and state, memory and cycles where they are known."""

from typing import Any, Dict, Mapping, Optional

import torch
from torch import nn

from lightning_ipu import backend
from lightning_ipu.updates.optimizers import rule_of


def weight_bytes(module: nn.Module) -> int:
    """Bytes of all parameters and buffers: what each replica holds."""
    tensors = {
        id(tensor): tensor for part in module.modules() for registry in (part._parameters, part._buffers) for tensor in registry.values()
    }
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values() if tensor is not None)


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of an optimizer's state on each replica: tensors of the size of the weights, in float32."""
    total = 0
    for group in optimizer.param_groups:
        n_values = sum(parameter.numel() for parameter in group["params"] if parameter.requires_grad)
        total += 4 * n_values * _tensors_per_weight(rule_of(optimizer) or "", group)
    return total


def _tensors_per_weight(rule: str, group: Mapping[str, Any]) -> int:
    if rule == "SGD":
        return int(bool(group.get("momentum")))
    if rule == "RMSprop":
        return 1 + int(bool(group.get("centered"))) + int(bool(group.get("momentum")))
    return 2


def of_report(report: Optional[Any]) -> Dict[str, float]:
    """Memory of each IPU and cycles of an update, as the machine model has them; empty without a report.

    Args:
        report: a PlanReport of the training step.
    """
    if report is None:
        return {}
    from softipu.hardware import find_system

    cost = report.cost
    found = {f"ipu.estimated_memory_bytes.ipu{ipu.ipu}": float(ipu.total.total) for ipu in cost.memory}
    found["ipu.estimated_update_cycles"] = float(cost.time.total.total * find_system(cost.system).ipu.clock_hz)
    return found


def cycles(executor: Any, poptorch: Any) -> Dict[str, float]:
    """Cycles of the last call: hardware counts them if ``Options.logCycleCount(True)`` asks for it."""
    if backend.choose().name != "sdk":
        return {}
    try:
        return {"ipu.cycles": float(executor.cycleCount())}
    except poptorch.Error:  # not asked for; the options do not tell
        return {}
