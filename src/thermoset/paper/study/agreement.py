"""How many printed cells a study reproduces, metric by metric, and how many it would reproduce by any method."""

from collections.abc import Iterable
from dataclasses import dataclass

from thermoset.paper.study.cells import Cell, agree, of_medians
from thermoset.paper.study.published import Pair, find_printed

__all__ = ["Agreement", "agreements"]

_METHODS = ("lac", "aps", "raps")
_METRICS = ("avg_size", "top_coverage_gap", "marginal_coverage_gap")


@dataclass(frozen=True)
class Agreement:
    """Printed cells of one metric that the study agrees with (mode "published").

    Attributes
    ----------
    metric : str
    agree, printed : int
        Cells that agree, and those that the paper prints.
    swapped : float
        Cells that would agree if the scores were mistaken for one another: each printed number beside the measurement
        of the two other scores. Where this is nearly as large as `agree`, agreement says nothing of the method.
    """

    metric: str
    agree: int
    printed: int
    swapped: float

    @property
    def worth(self) -> str:
        """What agreement tells, in words: whether the wrong score would be noticed.

        >>> Agreement("marginal_coverage_gap", 24, 24, swapped=24.0).worth
        'nothing: any method passes'
        """
        if self.swapped > 0.8 * self.agree:
            return "nothing: any method passes"
        return "much: other scores fail" if 2 * self.swapped <= self.agree else "little: other scores often pass"


def agreements(pair: Pair | None, cells: Iterable[Cell]) -> tuple[Agreement, ...]:
    """Count what agrees, and what would agree with the scores swapped; nothing for a file that the paper has not."""
    mine = [cell for cell in cells if cell.mode == "published" and cell.printed is not None]
    by_metric = {metric: [cell for cell in mine if cell.metric == metric] for metric in _METRICS}
    return tuple(
        Agreement(metric, sum(bool(cell.agrees) for cell in found), len(found), _swapped(pair, found))
        for metric, found in by_metric.items()
        if found
    )


def _swapped(pair: Pair | None, cells: list[Cell]) -> float:
    """Cells that agree with another score's number, a mean over the two ways to turn the scores round."""
    passed = 0
    for cell in cells:
        place = cell.at, cell.alpha, cell.cp_percent
        printed = find_printed(pair, cell.metric, cell.method, *place)
        for other in cells:
            beside = other.method != cell.method and (other.at, other.alpha, other.cp_percent) == place
            if printed is not None and beside:
                passed += agree(other.value, of_medians(other.standard_error), printed)
    return passed / (len(_METHODS) - 1)
