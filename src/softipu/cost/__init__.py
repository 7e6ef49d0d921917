"""From a step, a plan and a system to memory and time."""

from softipu.cost.price import price
from softipu.cost.workload import Workload, read_step
from softipu.report.cost_report import CostReport
from softipu.report.plan import Partials, Plan, Schedule, Stage

__all__ = ["CostReport", "Partials", "Plan", "Schedule", "Stage", "Workload", "price", "read_step"]
