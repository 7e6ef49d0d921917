"""The fitted factors: what each is, its value and range, and what it was fitted on."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

FILE = Path(__file__).with_name("fitted.json")


@dataclass(frozen=True)
class Factor:
    """A fitted number.

    Attributes:
        value: the best fit.
        low, high: the range that the fit was allowed.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """All fitted factors; ``factor_meanings`` says what each is.

    Attributes:
        fitted_on: ids of the published runs.
    """

    vector_slowdown: Factor
    superstep_cycles: Factor
    call_seconds: Factor
    host_sync_seconds: Factor
    fitted_on: Tuple[str, ...] = ()

    def with_values(self, **values: float) -> "Calibration":
        """The same factors with other values."""
        new = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in values.items():
            new[name] = Factor(value, new[name].low, new[name].high)
        return Calibration(**new)

    def as_dict(self) -> Dict[str, Any]:
        """What the file holds."""
        factors = {n: vars(getattr(self, n)) for n in factor_names()}
        return {"fitted_on": list(self.fitted_on), "factors": factors}


def factor_names() -> Tuple[str, ...]:
    """Names of the factors, in order."""
    return tuple(f.name for f in fields(Calibration) if f.name != "fitted_on")


def factor_meanings() -> Dict[str, str]:
    """What each factor is, with its unit."""
    return {
        "vector_slowdown": "time of vector arithmetic over the cycles of its inner loops: short loops, operands that lie apart, copies",
        "superstep_cycles": "cycles of every round of compute and exchange, whatever its size: launching vertices, control code",
        "call_seconds": "seconds of every training call of the host, whatever its size",
        "host_sync_seconds": "seconds that a stage waits for data from a host at the other end of a network, once a micro-batch",
    }


def load(file: Optional[Path] = None) -> Calibration:
    """The calibration in ``file``, the package's own by default."""
    data = json.loads((file or FILE).read_text(encoding="utf-8"))
    return Calibration(**{n: Factor(**data["factors"][n]) for n in factor_names()}, fitted_on=tuple(data["fitted_on"]))
