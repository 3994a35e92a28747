"""The folder a study leaves: tables as csv and LaTeX, figures as PNG and PDF, one page, one document."""

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.io import files_of
from thermoset.io.files import check_folder, check_targets, write_all
from thermoset.paper.study.claims import Claim
from thermoset.paper.study.document import study_json
from thermoset.paper.study.figures import drawn_figures, figure_1
from thermoset.paper.study.latex import paper_tables
from thermoset.paper.study.page import study_page
from thermoset.paper.study.pairs import PairStudy
from thermoset.paper.study.printouts import cells_csv
from thermoset.paper.study.tables import study_sections

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_places", "figure_files", "summary_files", "write_files"]

_DPI = 100


def check_places(out: Path, names: Iterable[str], sources: Iterable[Path]) -> None:
    """Refuse, before the work, folders that cannot be made and files that must not be replaced: see `check_targets`."""
    folders = [out / "tables", *(out / "figures" / name for name in names)]
    for folder in folders:
        check_folder(folder)
    there = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
    alone = ("cells.csv", "index.html", "study.json", "figure-1.png", "figure-1.pdf")
    written = [*(out / name for name in alone), *there]
    check_targets(written, [part for source in sources for part in files_of(source)])


def figure_files(study: PairStudy, data: Logits) -> dict[str, bytes]:
    """The figures of one file, by path within the folder."""
    made = {}
    for name, draw in drawn_figures(data, study).items():
        made.update(_png_and_pdf(f"figures/{study.name}/{name}", draw()))
    return made


def _png_and_pdf(name: str, figure: "Figure") -> dict[str, bytes]:
    made = {}
    for suffix, options in (("png", {"dpi": _DPI}), ("pdf", {"dpi": _DPI, "metadata": {"CreationDate": None}})):
        stream = io.BytesIO()
        figure.savefig(stream, format=suffix, **options)
        figure.set_layout_engine("none")  # both have the layout that the first has found
        made[f"{name}.{suffix}"] = stream.getvalue()
    return made


def summary_files(
    studies: Sequence[PairStudy], together: Sequence[Claim], figures: Mapping[str, bytes], skipped: dict[str, str]
) -> dict[str, bytes]:
    """Tables, first figure, page and document of all files; `figures` are those already made, for the page."""
    first = _png_and_pdf("figure-1", figure_1(studies))
    sections = study_sections(studies, together)
    texts = {"cells.csv": cells_csv(studies), "study.json": study_json(studies, together, skipped)}
    for table in (table for section in sections for table in (*section.tables, *section.folded)):
        texts[f"tables/{table.name}.csv"] = table.to_csv()
        texts[f"tables/{table.name}.tex"] = table.to_latex()
    texts.update({f"tables/{name}.tex": table for name, table in paper_tables(studies).items()})
    texts["index.html"] = study_page(studies, sections, {**figures, **first}, skipped)
    return {**first, **{name: text.encode() for name, text in texts.items()}}


def write_files(out: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files by path within the folder, each whole or not at all."""
    try:
        return write_all(out, contents)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror or error}). Name another folder.") from None
