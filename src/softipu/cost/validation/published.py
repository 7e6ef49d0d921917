"""A file of published runs: model, run configuration, and what was measured."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from softipu.cost.validation.run_checks import problem_of
from softipu.errors import Error

SCHEMA = 1


@dataclass(frozen=True)
class PublishedRun:
    """One run.

    Attributes:
        id: as the file names it.
        model: its family and sizes.
        run: the configuration, as the file gives it.
        items_per_second: measured over all replicas; None when it was not.
        fits: whether the run fits; None when only its throughput was published.
        source: where it was published.
        problem: why the entry cannot be priced, as far as that shows without building its model; empty where nothing shows.
    """

    id: str
    model: Mapping[str, Any]
    run: Mapping[str, Any]
    items_per_second: Optional[float]
    fits: Optional[bool]
    source: str = ""
    problem: str = ""

    @property
    def family(self) -> str:
        return str(self.model.get("family"))

    def check(self) -> None:
        """Raises Error with the problem, if there is one."""
        if self.problem:
            raise Error(self.problem)

    @property
    def training(self) -> bool:
        return self.run["phase"] == "training"


def read_published(file: Union[str, Path]) -> Tuple[PublishedRun, ...]:
    """The runs of a file, in order. An entry that lacks something is a run with a problem, so that the others can be priced.

    Raises:
        Error: no such file, not JSON, another schema, or no list of entries.
    """
    path = Path(file)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Error(f"Cannot read the file of published runs {str(path)!r}: {error.strerror}. Give the path of a JSON file.") from error
    except ValueError as error:
        raise Error(f"The file of published runs {str(path)!r} is not JSON: {error}.") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise Error(f"The file {str(path)!r} has schema {schema!r}; this version reads schema {SCHEMA}: {{'schema': 1, 'entries': [...]}}.")
    entries = data.get("entries")
    if not isinstance(entries, list):
        raise Error(f"The file {str(path)!r} has {entries!r} as its entries; give a list: {{'schema': 1, 'entries': [...]}}.")
    return tuple(_entry(number, entry) for number, entry in enumerate(entries))


def _entry(number: int, entry: Any) -> PublishedRun:
    problem = problem_of(number, entry)
    given: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
    parts: Dict[str, Mapping[str, Any]] = {}
    for key in ("model", "run", "measured"):
        part = given.get(key)
        # What is null says nothing, as if it were not there.
        parts[key] = {k: v for k, v in part.items() if v is not None} if isinstance(part, Mapping) else {}
    rate, fits = parts["measured"].get("items_per_second"), parts["measured"].get("fits")
    name = str(given.get("id", f"number {number}"))
    return PublishedRun(name, parts["model"], parts["run"], rate, fits, str(given.get("source", "")), problem)
