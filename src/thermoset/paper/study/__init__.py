"""The paper's tables and figures from logits, compared with what it prints.

`study` runs the paper's protocol on every file of a folder, `study_logits` on logits in memory. What the paper prints
is data of the package (`printed_cells`). Figures need the `plot` extra.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from thermoset.errors import InputError
from thermoset.io import SUFFIXES, load
from thermoset.io.files import need
from thermoset.paper.study.cells import PAIRS, Agreement, Cell, Pair, Printed, find_printed, printed_cells, recognise
from thermoset.paper.study.claims import Claim, compare_files, file_numbers
from thermoset.paper.study.measure import Measured, Settings
from thermoset.paper.study.pairs import PairStudy, steps, study_logits
from thermoset.paper.study.row_by_row import LowTemperatures, SizeDifferences
from thermoset.paper.study.rules import RuleComparison
from thermoset.paper.study.tables import study_sections
from thermoset.quoting import Brief, printable
from thermoset.text_tables import TextTable

__all__ = [
    "PAIRS", "Agreement", "Cell", "Claim", "LowTemperatures", "Measured", "Pair", "PairStudy", "Printed",
    "RuleComparison", "Settings", "SizeDifferences", "Study", "find_printed", "logits_files", "printed_cells",
    "recognise", "study", "study_logits",
]  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Study(Brief):
    """What was studied, what was skipped and why, claims about several files, and the files that were written."""

    pairs: tuple[PairStudy, ...]
    skipped: dict[str, str]
    claims: tuple[Claim, ...]
    files: tuple[Path, ...]

    @property
    def tables(self) -> dict[str, TextTable]:
        """Every table by the name of its files; each has `to_markdown` and `to_latex`."""
        sections = study_sections(self.pairs, self.claims)
        return {table.name: table for section in sections for table in (*section.tables, *section.folded)}

    def __str__(self) -> str:
        return str(self.tables["overview"])

    def _repr_html_(self) -> str:
        """What a notebook shows: the overview."""
        return self.tables["overview"].to_html()


def logits_files(folder: Path) -> list[Path]:
    """Files of a folder that may hold logits, by name; labels and groups next to an npy file belong to it."""
    if not folder.is_dir():
        state = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} must be a folder with files of logits; it {state}.")
    companions = ("_labels.npy", "_classes.npy", "_groups.npy")
    paths = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES]
    files = [path for path in paths if not path.name.endswith(companions)]
    if not files:
        raise InputError(f"{folder} holds no file of logits. File names must end in {', '.join(SUFFIXES)}.")
    return files


def study(
    folder: str | Path,
    out: str | Path,
    settings: Settings | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Study:
    """Study every file of logits in a folder and write the results.

    Parameters
    ----------
    folder : path
        Files that `load` reads. Names such as `Cifar100-ResNet50_data.npz` are recognised as pairs of the paper, and
        the tables then show the printed numbers as well. Other files are studied in the same way.
    out : path
        Folder for `index.html`, `cells.csv`, `curves.csv`, `temperatures.csv`, `tables/` and `figures/`.
    settings : Settings
        The protocol; the paper's if left out.
    progress : callable
        Called with (done, total) in steps.

    Returns
    -------
    Study
        Files that cannot be studied (no labels, too few rows) are skipped and listed with the reason. If none is left,
        an error is raised.
    """
    need("matplotlib", "plot", "the figures of the study")
    from thermoset.paper.study import page as writing  # noqa: PLC0415 (needs the extra)

    settings = settings or Settings()
    sources = logits_files(Path(folder))
    names = _names(sources)
    writing.check_places(Path(out), names.values(), sources)
    done, of_file = 0, steps(settings) + 1

    def tell(to: int | None = None) -> None:
        nonlocal done
        done = done + 1 if to is None else to  # a file that is skipped has done its own
        if progress is not None:
            progress(done, len(sources) * of_file)

    studies: list[PairStudy] = []
    figures: dict[str, bytes] = {}
    skipped: dict[str, str] = {}
    for i, source in enumerate(sources):
        try:
            data = load(source)
            pair_study = study_logits(data, names[source], settings, tell=tell)
            figures.update(writing.figure_files(pair_study, data))
            studies.append(pair_study)
        except InputError as error:
            skipped[printable(source.name)] = printable(str(error))
        tell((i + 1) * of_file)
    if not studies:
        raise InputError(f"{folder}: no file could be studied. {'; '.join(skipped.values())}")
    numbers = [n for one in studies for n in file_numbers(one.title, one.n_classes, one.measured, settings)]
    together = compare_files(numbers, settings)
    summary = writing.summary_files(studies, together, figures, skipped)
    files = writing.write_files(Path(out), {**figures, **summary})
    return Study(tuple(studies), skipped, together, tuple(files))


def _names(sources: Sequence[Path]) -> dict[Path, str]:
    """What each file is called in texts and in the names of folders, no two alike; without the ending, if it can be."""
    stems = Counter(source.stem for source in sources)
    names: dict[Path, str] = {}
    for source in sources:
        plain = printable(source.stem if stems[source.stem] == 1 and source.stem.strip(".") else source.name)
        others = (plain, *(f"{plain} ({i})" for i in range(2, len(sources) + 2)))
        names[source] = next(name for name in others if name not in names.values())
    return names
