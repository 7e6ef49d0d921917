"""Searches how to lay a step out on IPUs, and says what to do when a plan does not fit."""

from softipu.planner.planning import report_plan, require_fit, search_plan
from softipu.planner.space import Space
from softipu.planner.subject import Subject

__all__ = ["Space", "Subject", "report_plan", "require_fit", "search_plan"]
