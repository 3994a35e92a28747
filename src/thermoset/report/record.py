"""What the page shows: every number of it, in one frozen record, before any of it is drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Bools, Floats, Ints
from thermoset.levels import exact_level
from thermoset.metrics import ClasswiseCalibration, NoiseFloor, ReliabilityTable
from thermoset.monitor.report import CheckReport
from thermoset.predictor.document import Document
from thermoset.quoting import Brief, printable
from thermoset.report.shell import shorten
from thermoset.sweeping import Sweep
from thermoset.tuning import Outlook
from thermoset.tuning.choice import MissBreakdown


@dataclass(frozen=True, eq=False, repr=False)
class Reliability(Brief):
    """Probabilities at one temperature: reliability in bins, NLL, Brier score, calibration of all classes."""

    name: str
    temperature: float
    bins: ReliabilityTable
    nll: float
    brier: float
    classwise: ClasswiseCalibration


@dataclass(frozen=True)
class LabelPair:
    """Two labels, and the number of sets that hold both."""

    first: int
    second: int
    count: int


@dataclass(frozen=True)
class Movement:
    """How many rows get a larger, an equal or a smaller set at `after` than at T = 1 (paper, appendix B.4.1)."""

    after: str
    temperature: float
    grown: int
    same: int
    shrunk: int


@dataclass(frozen=True, eq=False, repr=False)
class SetFacts(Brief):
    """The predictor's own sets.

    `sizes[s]` counts sets of s labels, `class_sizes` and `group_sizes` are mean sizes by true class and by group
    of rows (NaN without rows), `pairs` are the labels that are in the same sets most often.
    """

    sizes: Ints
    class_sizes: Floats
    group_sizes: Floats | None
    pairs: tuple[LabelPair, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Examples(Brief):
    """Some rows with their sets.

    Attributes
    ----------
    rows : int array (m,)
        Row numbers in the data of the report.
    labels, predicted : int arrays (m,)
        True and likeliest labels.
    confidence : float array (m,)
        At T*.
    order : int array (m, C)
        Labels of each row, the likeliest first.
    named : mapping
        Sets (m, C) at "T = 1", "T*" and "T-hat".
    swept : bool array (temperatures, alphas, m, C)
        Sets at every temperature and level of the slider.
    images : tuple
        A picture of each row as a 2-d array, or None.
    """

    rows: Ints
    labels: Ints
    predicted: Ints
    confidence: Floats
    order: Ints
    named: Mapping[str, Bools]
    swept: Bools
    images: tuple[NDArray[np.generic] | None, ...]


class RiskPoint(NamedTuple):
    """Share of rows that one threshold answers, the error among them, and its 95% interval."""

    share: float
    error: float
    low: float
    high: float


class NamedSetting(NamedTuple):
    """A setting with what it is called in a sentence, and which rows are missed there, as alpha allows."""

    name: str
    outlook: Outlook
    misses: MissBreakdown


@dataclass(frozen=True, eq=False, repr=False)
class Report(Brief):
    """Everything on the page.

    Attributes
    ----------
    name : str
        What the data is called.
    document : Document
        The predictor.
    origin : "fresh" or "calibration"
        Whether the judged rows are new to the predictor, or those that its temperatures were chosen on.
    rows, reference_rows, compared_rows : int
        Rows that the predictor is judged on; that set thresholds at other temperatures; that are shown at these.
    data_sha256 : str
        Of all rows given.
    check : CheckReport
        Coverage, classes and calibration of the judged rows.
    curves, conditional : Sweep
        Global thresholds by method, and thresholds by class, over random splits of all rows given.
    floors : mapping
        By alpha: what class gaps show by chance on the evaluation rows of a split.
    critical : float
        The theory's critical temperature.
    calibrations : tuple of Reliability
        At T = 1 and T*, on the judged rows.
    sets : SetFacts
    examples : Examples
    movements : tuple of Movement
        From T = 1 to T*, and to T-hat, on the compared rows.
    notes : tuple of str
        What was warned of on the way.
    risk : tuple of RiskPoint
        Errors among answered rows at every threshold of the answer rule, on the judged rows; empty without a rule.
    """

    name: str
    document: Document
    origin: Literal["fresh", "calibration"]
    rows: int
    reference_rows: int
    compared_rows: int
    data_sha256: str
    check: CheckReport
    curves: Sweep
    conditional: Sweep
    floors: Mapping[float, NoiseFloor]
    critical: float
    calibrations: tuple[Reliability, ...]
    sets: SetFacts
    examples: Examples
    movements: tuple[Movement, ...]
    notes: tuple[str, ...]
    risk: tuple[RiskPoint, ...] = ()

    @property
    def own(self) -> Sweep:
        """The sweep of sets made as the predictor makes them; its first method is the predictor's."""
        return self.curves if self.document.grouping is None else self.conditional

    @property
    def alpha(self) -> float:
        """The level that the threshold is set for, as a number: the promised one, or a stricter one."""
        return float(exact_level(self.document.recipe.alpha))

    @property
    def marks(self) -> dict[str, float]:
        """Temperatures to point out, by name."""
        document = self.document
        marks = {"T = 1": 1.0, "T*": document.temperature, "T-hat": document.temperature_sets}
        if document.choice.peak is not None:
            marks["T_c"] = document.choice.peak
        return marks | {"theory": self.critical}

    @property
    def with_misses(self) -> tuple[NamedSetting, ...]:
        """T = 1 and the recommendation, or this alone where it is T = 1; nothing where misses are unknown."""
        choice = self.document.choice
        one, chosen = choice.outlooks[0], choice.outlook
        if one.misses is None or chosen.misses is None or not choice.frontier:
            return ()
        if one.setting == chosen.setting:
            return (NamedSetting("recommended", chosen, chosen.misses),)
        other = "" if one.setting.kind == chosen.setting.kind else f" ({one.setting.kind})"
        return NamedSetting(f"{one.name}{other}", one, one.misses), NamedSetting("recommended", chosen, chosen.misses)

    def class_name(self, label: int) -> str:
        """Name of a class as the page shows it; its number where classes have no names."""
        return str(label) if self.document.classes is None else printable(self.document.classes[label])

    def group_name(self, group: int) -> str:
        """Name of a group of rows as the page shows it."""
        names = self.check.group_names
        return str(group) if names is None else printable(names[group])

    def short_name(self, label: int) -> str:
        """Name of a class where there is little room."""
        return shorten(self.class_name(label), f"class {label}")
