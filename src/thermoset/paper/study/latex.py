r"""The paper's own tables as it prints them, in LaTeX (booktabs): the same columns and digits, measured here.

Sizes and gaps are those of the mode "published". In the table of appendix D, Mondrian sets are the valid ones, and
T-hat is chosen as that appendix describes it.
"""

from collections.abc import Iterator, Sequence

from thermoset.paper.study.cells import Cell
from thermoset.paper.study.pairs import PairStudy
from thermoset.text_tables import TextTable

__all__ = ["paper_tables"]

_METHODS = ("lac", "aps", "raps")
_AT = ("before", "after")
_MAIN_TEXT = {(0.1, 10): ("table-1", "table-2")}  # those of the paper's main text


def paper_tables(studies: Sequence[PairStudy]) -> dict[str, str]:
    """Tables 1 and 2, those of appendix B.3 and B.4, and that of appendix D, by name."""
    made = {"paper-temperatures": _temperatures(studies)}
    settings = studies[0].settings
    for alpha in settings.alphas:
        for cp in settings.cp_percents:
            other = tuple(f"{name}-alpha-{alpha:g}-cp-{cp}" for name in ("sizes", "coverage"))
            sizes, coverage = _MAIN_TEXT.get((alpha, cp), other)
            made[f"paper-{sizes}"] = _sizes(studies, alpha, cp)
            made[f"paper-{coverage}"] = _coverage(studies, alpha, cp)
    compared = sorted({cell.cp_percent for study in studies for cell in study.comparison.cells if cell.cp_percent})
    if compared:
        made["paper-appendix-d"] = _mondrian(studies, compared)
    return made


def _where(alpha: float, cp: int) -> str:
    return rf"$\alpha = {alpha:g}$, CP set size ${cp}\%$, pre- and post-TS calibration"


def _sizes(studies: Sequence[PairStudy], alpha: float, cp: int) -> str:
    lines = []
    for study in studies:
        heads = {cell.metric: cell.value for cell in study.cells if not cell.method}
        known = f"{heads['temperature_ece']:.3f}", f"{100 * heads['top1']:.1f}", f"{100 * heads['top5']:.1f}"
        lines.append((study.title, *known, *_values(study, "avg_size", alpha, cp, 1, 2)))
    groups = ("", 1), ("", 1), (r"Accuracy (\%)", 2), ("AvgSize", 3), ("AvgSize after TS", 3)
    head = ("Dataset-Model", "$T^*$", "Top-1", "Top-5", *("LAC", "APS", "RAPS") * 2)
    return _latex(f"Prediction set size. AvgSize, $T^*$ and accuracy with {_where(alpha, cp)}.", groups, head, lines)


def _coverage(studies: Sequence[PairStudy], alpha: float, cp: int) -> str:
    metrics = "marginal_coverage_gap", "top_coverage_gap"
    lines = [
        (study.title, *(value for metric in metrics for value in _values(study, metric, alpha, cp, 100, 1)))
        for study in studies
    ]
    names = (rf"{name}{after} (\%)" for name in ("MarCovGap", "TopCovGap") for after in ("", " TS"))
    groups = ("", 1), *((name, 3) for name in names)
    head = ("Dataset-Model", *("LAC", "APS", "RAPS") * 4)
    return _latex(f"Coverage metrics. MarCovGap and TopCovGap with {_where(alpha, cp)}.", groups, head, lines)


def _values(study: PairStudy, metric: str, alpha: float, cp: int, scale: int, digits: int) -> Iterator[str]:
    """LAC, APS and RAPS before and after temperature scaling, as the paper rounds them."""
    cells = _by_place(
        cell for cell in study.cells if (cell.mode, cell.alpha, cell.cp_percent) == ("published", alpha, cp)
    )
    for at in _AT:
        for method in _METHODS:
            yield f"{scale * cells[metric, method, at].value:.{digits}f}"


def _by_place(cells: Iterator[Cell]) -> dict[tuple[str, str, str], Cell]:
    return {(cell.metric, cell.method, cell.at): cell for cell in cells}


def _temperatures(studies: Sequence[PairStudy]) -> str:
    lines = []
    for study in studies:
        found = {cell.metric: cell.value for cell in study.cells if not cell.method}
        lines.append((study.title, f"{found['temperature_nll']:.3f}", f"{found['temperature_ece']:.3f}"))
    head = ("Dataset-Model", "$T^*$ - NLL loss", "$T^*$ - ECE loss")
    return _latex("Optimal temperature for NLL and ECE objectives.", (), head, lines)


def _mondrian(studies: Sequence[PairStudy], compared: Sequence[int]) -> str:
    lines = []
    for name, metric, digits in (
        ("AvgSize", "avg_size", 1),
        ("MarCovGap", "marginal_coverage_gap", 2),
        ("TopCovGap", "top_coverage_gap", 2),
    ):
        values = []
        for study in studies:
            for at in ("mondrian", "t_hat"):
                for cp in compared:
                    mine = (c for c in study.comparison.cells if (c.mode, c.cp_percent) == ("exact", cp))
                    values.append(f"{_by_place(mine)[metric, 'raps', at].value:.{digits}f}")
        lines.append((name, *values))
    n = len(compared)
    files = ("", 1), *((_escaped(study.title), 2 * n) for study in studies)
    rules = ("", 1), *((name, n) for _ in studies for name in ("MCP", r"TS with $\hat{T}$"))
    head = (r"CP set size (\%)", *(rf"{cp}\%" for _ in range(2 * len(studies)) for cp in compared))
    caption = r"Mondrian CP (MCP) and TS with $\hat{T} = \arg\min_T \mathrm{TopCovGap}(T)$, both based on RAPS."
    return _latex(caption, files, head, lines, rules)


def _latex(
    caption: str,
    groups: Sequence[tuple[str, int]],
    head: Sequence[str],
    lines: Sequence[Sequence[str]],
    *more: Sequence[tuple[str, int]],
) -> str:
    """A table with heads over groups of columns; cells are escaped, heads are LaTeX."""
    above = [row for part in (groups, *more) if part for row in _grouped(part)]
    return "\n".join(
        [
            r"\begin{table}", r"\centering", rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}", r"\toprule", *above, " & ".join(head) + r" \\",
            r"\midrule", *_rows(lines), r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
        ]
    )  # fmt: skip


def _grouped(groups: Sequence[tuple[str, int]]) -> Iterator[str]:
    """A row of heads over several columns, and the rules below them."""
    cells = (name if width == 1 else rf"\multicolumn{{{width}}}{{c}}{{\textbf{{{name}}}}}" for name, width in groups)
    yield " & ".join(cells) + r" \\"
    rules, first = [], 1
    for name, width in groups:
        if name:
            rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
        first += width
    yield " ".join(rules)


def _rows(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, escaped by `TextTable`."""
    made = TextTable("", "", ("",) * len(lines[0]), tuple(map(tuple, lines))).to_latex()
    return [row for row in made.split("\n") if row.endswith(r"\\")][1:]


def _escaped(text: str) -> str:
    return _rows([(text,)])[0].removesuffix(r" \\")
