"""Plans and stages in words."""

from typing import List, Sequence

from softipu.report.plan import Plan, Schedule
from softipu.report.units import counted


def layout_words(plan: Plan) -> str:
    """How the IPUs are used: "4 replicas x 4 IPUs, micro-batch 8, accumulation 512, recompute on every stage"."""
    parts = [f"{counted(plan.replicas, 'replica')} x {counted(plan.n_ipus_per_replica, 'IPU')}", f"micro-batch {plan.micro_batch}"]
    if plan.gradient_accumulation > 1:
        parts.append(f"accumulation {plan.gradient_accumulation:,}")
    if plan.device_iterations > 1:
        parts.append(f"device iterations {plan.device_iterations:,}")
    parts += choice_words(plan)
    return ", ".join(parts)


def choice_words(plan: Plan) -> List[str]:
    """What a plan does to save memory, in words; empty where it does nothing."""
    parts = []
    recomputed = [i for i, stage in enumerate(plan.stages) if stage.recompute]
    if recomputed:
        every = len(recomputed) == len(plan.stages)
        parts.append("recompute " + ("every stage" if every and len(recomputed) > 1 else numbered("stage", recomputed)))
    if plan.optimizer_state_off_chip:
        parts.append("optimizer state off chip")
    if plan.replicated_tensor_sharding:
        parts.append("replicated tensor sharding")
    if plan.n_io_tiles:
        parts.append(counted(plan.n_io_tiles, "I/O tile"))
    if plan.schedule is Schedule.SHARDED and plan.n_ipus_per_replica > 1:
        parts.append("one IPU at a time")
    for path, n in plan.serialized:
        parts.append(f"{path} in {n} parts")
    return parts


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """ "stage", [1, 2, 3, 5] -> "stages 1 to 3, 5"."""
    runs: List[List[int]] = []
    for n in numbers:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}, {run[1]}" if len(run) == 2 else f"{run[0]} to {run[-1]}" for run in runs]
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(texts)}"
