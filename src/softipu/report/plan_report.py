"""What planning found: the priced plan, what would make it fit, and what a search compared. Frozen, and JSON-able by ``as_dict``."""

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from softipu.report.cost_report import CostReport
from softipu.report.plan import Plan

PLAN_REPORT_SCHEMA = 1


@dataclass(frozen=True)
class Remedy:
    """A change of a plan that takes memory off its fullest IPU.

    Attributes:
        text: what to do, as an order: "recompute stage 2".
        plan: the plan after it.
        freed_bytes: how much less the IPU needs that needed most.
        items_per_second: after it, of all replicas.
        fits: whether it is enough on its own.
    """

    text: str
    plan: Plan
    freed_bytes: float
    items_per_second: float
    fits: bool


@dataclass(frozen=True)
class Candidate:
    """A plan of a search with its price.

    Attributes:
        plan: the layout.
        items_per_second: of all replicas.
        memory_bytes: of the fullest IPU.
        tile_fraction: use of the fullest tile; at most 1 fits.
        n_ipus: of all replicas.
    """

    plan: Plan
    items_per_second: float
    memory_bytes: float
    tile_fraction: float
    n_ipus: int

    @property
    def fits(self) -> bool:
        return self.tile_fraction <= 1.0


@dataclass(frozen=True)
class Fallen:
    """A choice that a search left out.

    Attributes:
        what: the choice: "4 IPUs a replica, micro-batch 8".
        why: the reason with its figures: "the best split needs 1,012 MiB on IPU 2".
        items_per_second: at most, where it is known.
    """

    what: str
    why: str
    items_per_second: Optional[float] = None


@dataclass(frozen=True)
class SearchResult:
    """What a search compared.

    Attributes:
        front: plans that fit and that no other plan beats in throughput, memory and number of IPUs at once; fastest first.
        fallen: the others, by choice, with the reason.
        n_choices: combinations of stages, micro-batch, recomputation and the rest that were looked at.
        n_bounded: of them, left out by a bound, without a search of stage boundaries.
        n_priced: plans whose full price was computed.
        seconds: time that the search took.
    """

    front: Tuple[Candidate, ...]
    fallen: Tuple[Fallen, ...]
    n_choices: int
    n_bounded: int
    n_priced: int
    seconds: float

    @property
    def best(self) -> Optional[Candidate]:
        """The fastest plan that fits, or None."""
        return self.front[0] if self.front else None


@dataclass(frozen=True)
class PlanReport:
    """A plan, its price, and what could be better.

    Attributes:
        model: name of the planned module.
        cost: price of the plan: of the best one after a search, otherwise of the one that was asked for.
        remedies: what takes memory off the fullest IPU, cheapest first; empty when the plan fits.
        search: what a search compared; None without one.
        unsupported: calls in the step that PopTorch does not list as supported; names of ops.
    """

    model: str
    cost: CostReport
    remedies: Tuple[Remedy, ...] = ()
    search: Optional[SearchResult] = None
    unsupported: Tuple[str, ...] = ()

    @property
    def plan(self) -> Plan:
        return self.cost.plan

    @property
    def fits(self) -> bool:
        return self.cost.fits

    def text(self) -> str:
        """For a terminal."""
        from softipu.report.text import plan_text

        return plan_text(self)

    def html(self) -> str:
        """One page with pictures that needs no other file."""
        from softipu.report.html import plan_page

        return plan_page(self)

    def json(self) -> str:
        """As ``as_dict``, as text; described by ``plan_report.schema.json``."""
        import json

        return json.dumps(self.as_dict(), indent=1)

    def trace(self) -> str:
        """The time line of a weight update for ui.perfetto.dev or chrome://tracing."""
        from softipu.report.trace import trace_json

        return trace_json(self.cost)

    def as_dict(self) -> Dict[str, Any]:
        """JSON-able form: {"schema": 1, ...}."""
        return {
            "schema": PLAN_REPORT_SCHEMA,
            "model": self.model,
            "cost": self.cost.as_dict(),
            "remedies": [
                {
                    "text": r.text,
                    "plan": r.plan.as_dict(),
                    "freed_bytes": r.freed_bytes,
                    "items_per_second": r.items_per_second,
                    "fits": r.fits,
                }
                for r in self.remedies
            ],
            "search": None if self.search is None else _search(self.search),
            "unsupported": list(self.unsupported),
        }


def _search(search: SearchResult) -> Dict[str, Any]:
    return {
        "front": [
            {
                "plan": c.plan.as_dict(),
                "items_per_second": c.items_per_second,
                "memory_bytes": c.memory_bytes,
                "tile_fraction": c.tile_fraction,
                "n_ipus": c.n_ipus,
            }
            for c in search.front
        ],
        "fallen": [{"what": f.what, "why": f.why, "items_per_second": f.items_per_second} for f in search.fallen],
        "n_choices": search.n_choices,
        "n_bounded": search.n_bounded,
        "n_priced": search.n_priced,
        "seconds": search.seconds,
    }
