"""A number that knows what it rests on."""

from dataclasses import dataclass
from enum import Enum
from typing import Dict, Iterable


class Provenance(Enum):
    """What a part of an estimate rests on; the weakest of everything it was computed from."""

    DATASHEET = "datasheet"  # a vendor's figure
    FORMULA = "formula"  # arithmetic on shapes and a documented rule
    FITTED = "fitted"  # a factor fitted to published runs
    ASSUMED = "assumed"  # nothing published says


@dataclass(frozen=True)
class Estimate:
    """A sum of parts by provenance; all in the unit that the name of the field says."""

    datasheet: float = 0.0
    formula: float = 0.0
    fitted: float = 0.0
    assumed: float = 0.0

    @property
    def total(self) -> float:
        return self.datasheet + self.formula + self.fitted + self.assumed

    def __add__(self, other: "Estimate") -> "Estimate":
        return Estimate(
            self.datasheet + other.datasheet, self.formula + other.formula, self.fitted + other.fitted, self.assumed + other.assumed
        )

    def __mul__(self, factor: float) -> "Estimate":
        return Estimate(self.datasheet * factor, self.formula * factor, self.fitted * factor, self.assumed * factor)

    __rmul__ = __mul__

    def shares(self) -> Dict[str, float]:
        """Fraction of the total by provenance; all zero when the total is."""
        total = self.total
        return {p.value: (getattr(self, p.value) / total if total else 0.0) for p in Provenance}

    @staticmethod
    def of(value: float, provenance: Provenance) -> "Estimate":
        """``value``, all of it of one provenance."""
        return Estimate(**{provenance.value: value})

    @staticmethod
    def sum(parts: Iterable["Estimate"]) -> "Estimate":
        """The sum of ``parts``; nothing sums to zero."""
        total = Estimate()
        for part in parts:
            total = total + part
        return total


ZERO = Estimate()
