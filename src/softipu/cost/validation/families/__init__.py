"""The model families of published runs, built without weights. Each has one file; `build` finds it by name."""

from softipu.cost.validation.families.family import Model, build, families

__all__ = ["Model", "build", "families"]
