"""Tables of the study as text: csv, Markdown, LaTeX and HTML from one record."""

import csv
import html
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from thermoset.metrics import METRICS
from thermoset.paper.study.cells import Cell
from thermoset.paper.study.pairs import QUANTILES_AT, PairStudy
from thermoset.paper.study.published import find_printed

__all__ = ["KEY", "PrintedTable", "cells_csv", "study_tables"]

KEY = (
    "Median of means over the trials ± standard error. In brackets the printed number: ✗ where the two differ by more "
    "than sampling and rounding explain, † where the published logits give no such number. Rows 'exact' follow "
    "thermoset's conventions, rows 'published' the choices of the published code."
)
_METHODS = ("lac", "aps", "raps")
_DIGITS = {"avg_size": 2, "marginal_coverage_gap": 2, "top_coverage_gap": 1, "avg_coverage_gap": 2}  # as printed
_SHOWN = {
    name: (f"{METRICS[name].title} (%)", 100.0, digits)
    if METRICS[name].unit == "share"
    else (METRICS[name].title, 1.0, digits)
    for name, digits in _DIGITS.items()
}
_FILES = {
    "avg_size": "sizes",
    "marginal_coverage_gap": "marginal-gaps",
    "top_coverage_gap": "top-gaps",
    "avg_coverage_gap": "average-gaps",
}
_NUMBERS = {"avg_size": "Table 1. ", "marginal_coverage_gap": "Table 2. ", "top_coverage_gap": "Table 2. "}
_RULES = {"t_hat": "T-hat of appendix C", "conf_ts": "ConfTS", "mondrian": "Mondrian", "clustered": "clustered"}
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "*": "$^*$",
    "±": r"$\pm$", "✗": r"$\times$", "†": r"$\dagger$", "✓": r"$\surd$",
}  # fmt: skip


@dataclass(frozen=True)
class PrintedTable:
    """A table of text: a name for files, a title, a line of heads and lines of cells."""

    name: str
    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    def csv(self) -> str:
        """Comma-separated, with the heads first; a name that a spreadsheet would compute begins with an apostrophe.

        >>> print(PrintedTable("t", "Sizes", ("file", "LAC"), (("=1+1", "1.0"),)).csv())
        file,LAC
        '=1+1,1.0
        <BLANKLINE>
        """
        return _csv([self.head, *self.lines])

    def markdown(self) -> str:
        """A pipe table under its title.

        >>> print(PrintedTable("t", "Sizes", ("file", "LAC"), (("a", "1.0"),)).markdown())
        **Sizes**
        <BLANKLINE>
        | file | LAC |
        |---|---|
        | a | 1.0 |
        <BLANKLINE>
        """
        rule = "|" + "---|" * len(self.head)
        escaped = [[_md(cell) for cell in line] for line in (self.head, *self.lines)]
        rows = [f"| {' | '.join(line)} |" for line in escaped]
        return "\n".join([f"**{self.title}**", "", rows[0], rule, *rows[1:], ""])

    def latex(self) -> str:
        r"""A `tabular` in a `table`, for the packages of any article."""
        rows = [" & ".join(map(_tex, line)) + r" \\" for line in (self.head, *self.lines)]
        rows = [f"{{}}{row}" if row.startswith("[") else row for row in rows]  # or it is an argument of the row above
        columns = "l" * len(self.head)
        return "\n".join(
            [
                r"\begin{table}", r"\centering", rf"\caption{{{_tex(self.title)}}}", rf"\begin{{tabular}}{{{columns}}}",
                r"\hline", rows[0], r"\hline", *rows[1:], r"\hline", r"\end{tabular}", r"\end{table}", "",
            ]
        )  # fmt: skip

    def html(self) -> str:
        """A `table` with a caption; cells that do not agree are marked for the page's style."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.head)
        body = "".join(f"<tr>{''.join(map(_td, line))}</tr>" for line in self.lines)
        return f"<table id='{self.name}'><caption>{html.escape(self.title)}</caption><tr>{head}</tr>{body}</table>"


def _td(cell: str) -> str:
    return f"<td{' class=off' if '✗' in cell else ''}>{html.escape(cell)}</td>"


def _csv(lines: Sequence[Sequence[object]]) -> str:
    """Lines whose first cell is a name."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([_inert(str(name)), *cells] for name, *cells in lines)
    return text.getvalue()


def _inert(name: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def _md(cell: str) -> str:
    """Text for Markdown, in which names may not end a cell, begin a tag or make a link."""
    return cell.replace("|", r"\|").replace("<", r"\<").replace("](", r"]\(")


def _tex(text: str) -> str:
    r"""Text for LaTeX, which the names of files may not break.

    >>> print(_tex("50% of a_b ± 1"))
    50\% of a\_b $\pm$ 1
    """
    return "".join(_LATEX.get(character, character) for character in text)


def cells_csv(studies: Sequence[PairStudy]) -> str:
    """Every cell of every file, one a line."""
    heads = ["file", *(field.name for field in fields(Cell))]
    lines = [
        [study.name, *(getattr(cell, field.name) for field in fields(Cell))]
        for study in studies
        for cell in (*study.cells, *study.comparison.cells)
    ]
    return _csv([heads, *lines])


def study_tables(studies: Sequence[PairStudy]) -> tuple[PrintedTable, ...]:
    """The tables: the paper's in its order (alpha 0.1 with 10% first), with a line for each file and mode."""
    first = studies[0].settings
    places = [(alpha, cp) for alpha in first.alphas for cp in first.cp_percents]
    made = [_claims(studies), _heads(studies)]
    for alpha, cp in sorted(places, key=lambda place: place != (0.1, 10)):
        made.extend(_by_method(studies, metric, alpha, cp) for metric in _SHOWN)
    return (*made, *_comparisons(studies), _quantiles(studies))


def _claims(studies: Sequence[PairStudy]) -> PrintedTable:
    marks = {True: "✓ holds", False: "✗ does not", None: "open"}
    lines = [
        (study.title, marks[claim.holds], claim.text, claim.found, claim.source)
        for study in studies
        for claim in study.claims
    ]
    head = ("file", "verdict", "what the paper says", "what the file shows", "where")
    return PrintedTable("claims", "What the paper says, and what the files show (alpha 0.1)", head, tuple(lines))


def _heads(studies: Sequence[PairStudy]) -> PrintedTable:
    kinds = {
        "top1": ("top-1 (%)", 100.0, 1),
        "top5": ("top-5 (%)", 100.0, 1),
        "temperature_ece": ("T* by ECE", 1.0, 3),
        "temperature_nll": ("T* by NLL", 1.0, 3),
    }
    lines = []
    for study in studies:
        found = {cell.metric: cell for cell in study.cells if cell.metric in kinds}
        texts = [_text(found[metric], scale, digits) for metric, (_, scale, digits) in kinds.items()]
        whole = f"{study.measured.ece:.3f} / {study.measured.nll:.3f}"
        lines.append((study.title, f"{study.n_rows:,} x {study.n_classes:,}", *texts, whole))
    head = ("file", "rows x classes", *(name for name, _, _ in kinds.values()), "T* of all rows, ECE / NLL")
    return PrintedTable("temperatures", "Accuracy and T* (of each trial's calibration rows)", head, tuple(lines))


def _by_method(studies: Sequence[PairStudy], metric: str, alpha: float, cp: int) -> PrintedTable:
    """A table over methods, before and after temperature scaling."""
    shown, scale, digits = _SHOWN[metric]
    columns = [(at, method) for at in ("before", "after") for method in _METHODS]
    lines = []
    for study in studies:
        for mode in ("exact", "published"):
            found = {
                (cell.at, cell.method): _text(cell, scale, digits)
                for cell in study.cells
                if (cell.mode, cell.metric, cell.alpha, cell.cp_percent) == (mode, metric, alpha, cp)
            }
            if found:  # the published code has no gap over all classes
                lines.append((study.title, mode, *(found[column] for column in columns)))
    number = _NUMBERS.get(metric, "") if (alpha, cp) == (0.1, 10) else ""
    head = [f"{method.upper()}{' after TS' if at == 'after' else ''}" for at, method in columns]
    title = f"{number}{shown}, alpha {alpha:g}, CP {cp}%"
    return PrintedTable(f"{_FILES[metric]}-alpha-{alpha:g}-cp-{cp}", title, ("file", "mode", *head), tuple(lines))


def _comparisons(studies: Sequence[PairStudy]) -> Iterator[PrintedTable]:
    """Appendix D, a table for each size of the conformal set."""
    for cp in sorted({cell.cp_percent for study in studies for cell in study.comparison.cells if cell.cp_percent}):
        lines = []
        for study in studies:
            mine = [cell for cell in study.comparison.cells if cell.cp_percent == cp]
            for mode, at in dict.fromkeys((cell.mode, cell.at) for cell in mine):
                here = {cell.metric: cell for cell in mine if (cell.mode, cell.at) == (mode, at)}
                texts = [_text(here[metric], scale, digits) for metric, (_, scale, digits) in _SHOWN.items()]
                chosen = study.comparison.temperatures.get(f"{at}, CP {cp}%", study.comparison.temperatures.get(at))
                mean = "" if chosen is None or mode == "published" else f"{chosen.mean():.2f}"
                trials = str(here["avg_size"].trials)
                lines.append((study.title, _RULES.get(at, at), mode, mean, *texts, trials))
        head = ("file", "rule", "mode", "mean T", *(name for name, _, _ in _SHOWN.values()), "trials")
        yield PrintedTable(
            f"comparison-cp-{cp}", f"Appendix D. Even class coverage, RAPS, alpha 0.1, CP {cp}%", head, tuple(lines)
        )


def _quantiles(studies: Sequence[PairStudy]) -> PrintedTable:
    lines = []
    for study in studies:
        found = study.quantiles
        for i, (name, temperature) in enumerate(zip(QUANTILES_AT, found.temperature, strict=True)):
            probs = " ".join(f"{p:.4e}" for p in found.top_probs[i])
            at = f"{temperature:.3f}", f"{found.threshold[i]:.4f}", f"{found.margin[i]:.2f}"
            lines.append((study.title, name, *at, probs, _printed_probs(study, name)))
    probs_at = "five largest probabilities at T = 1"
    head = ("file", "sample at", "T", "threshold", "margin", probs_at, "printed")
    return PrintedTable(
        "quantile-samples", "Appendix B.6. The quantile sample at four temperatures", head, tuple(lines)
    )


def _printed_probs(study: PairStudy, at: str) -> str:
    cells = [find_printed(study.pair, f"quantile_probability_{i}", "aps", at) for i in range(1, 6)]
    return " ".join(f"{cell.value:.4e}" for cell in cells if cell is not None)


def _text(cell: Cell, scale: float, digits: int) -> str:
    """A cell as a reader sees it.

    >>> _text(Cell("exact", "avg_size", "aps", "before", 0.1, 10, 5.15, 0.056, 100, 5.31, agrees=True), 1.0, 2)
    '5.15 ± 0.06 [5.31]'
    """
    value = f"{scale * cell.value:.{digits}f}"
    if cell.standard_error > 0:
        value += f" ± {scale * cell.standard_error:.{digits}f}"
    if cell.printed is None:
        return value
    marks = ("" if cell.agrees else "✗") + ("†" if cell.note.startswith("not reproducible") else "")
    return f"{value} [{round(scale * cell.printed, 6):g}{' ' if marks else ''}{marks}]"
