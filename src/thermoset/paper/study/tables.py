"""The tables of the study, the sections of the page they stand in, and the paper's own tables as it prints them.

The latter are LaTeX (booktabs) with the paper's columns and digits, measured here in the mode "published". In the table
of appendix D, Mondrian sets are the valid ones, and T-hat is chosen as that appendix describes it.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thermoset.metrics import METRICS
from thermoset.paper.study.cells import PAIRS, Cell, find_cells, find_printed
from thermoset.paper.study.claims import Claim
from thermoset.paper.study.measure import METHODS
from thermoset.paper.study.pairs import QUANTILES_AT, PairStudy
from thermoset.paper.study.row_by_row import BOUNDS_AT
from thermoset.paper.study.rules import rule_label
from thermoset.sweeping import median_of_means
from thermoset.text_tables import TextTable

KEY = (
    "Cells show the median of means over the trials ± its standard error. The number printed in the paper stands below "
    "(rows marked 'printed') or in brackets. ✗ means that the two differ by more than sampling and rounding explain, "
    "✗† that moreover no choice that was tried gives the printed number from the published logits. ‡ means that the "
    "printed number is a different statistic by definition, so that the two are not compared (cells.csv says what "
    "differs). Rows marked 'exact' follow thermoset's conventions; rows marked 'published' follow the choices that "
    "come nearest to the published tables."
)
_MAIN = 0.1, 10  # of the paper's tables 1 and 2
_WHEN = ("before", "after")  # temperature scaling
_TITLES = {name: metric.title for name, metric in METRICS.items()}
_VERDICTS = {True: "✓ holds", False: "✗ does not hold", None: "open"}


def _columns(**digits: int) -> dict[str, tuple[str, float, int]]:
    """Title, factor and digits of metrics; shares are shown in percent."""
    shares = {name: METRICS[name].unit == "share" for name in digits}
    return {
        name: (_TITLES[name] + (" (%)" if share else ""), 100.0 if share else 1.0, digits[name])
        for name, share in shares.items()
    }


_SHOWN = _columns(avg_size=2, marginal_coverage_gap=2, top_coverage_gap=1, avg_coverage_gap=2)  # digits as printed
_COSTS = _columns(
    avg_size=2, marginal_coverage=1, integrated_worst_tenth_coverage=1, left_out_share=1, top_coverage_gap=1
)
_FILES = {  # and where the paper has the main ones
    "avg_size": ("sizes", "Table 1. "),
    "marginal_coverage_gap": ("marginal-gaps", "Table 2. "),
    "top_coverage_gap": ("top-gaps", "Table 2. "),
    "avg_coverage_gap": ("average-gaps", ""),
}


@dataclass(frozen=True)
class Section:
    """A part of the page: tables that are open, tables that are folded, figures of every file, and of all together."""

    name: str
    title: str
    about: str = ""
    tables: tuple[TextTable, ...] = ()
    folded: tuple[TextTable, ...] = ()
    figures: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


def study_sections(studies: Sequence[PairStudy], together: Sequence[Claim]) -> tuple[Section, ...]:
    """The page in its order, with all tables."""
    claims, in_full = _claims(studies, together)
    rules = _rules(studies)
    theory = _bounds(studies), _statements(studies), _quantiles(studies)
    sections = (
        Section("overview", "Overview", tables=(_overview(studies),)),
        Section("claims", "What the paper says", _CLAIMS, claims, (in_full,)),
        Section("agreement", "Agreement with the printed numbers", _AGREEMENT, _agreement(studies)),
        Section("calibration", "Accuracy, T* and reliability", _CALIBRATION, _temperatures(studies),
                figures=("reliability",)),
        *(_at_level(studies, alpha) for alpha in studies[0].settings.alphas),
        Section("rows", "Set sizes row by row", _ROWS, figures=("differences",)),
        Section("guideline", "Even class coverage (appendices C and D)", _GUIDELINE, _comparisons(studies),
                figures=("single-trials",)),
        Section("rules", "All rules: which rows lose", _ALL_RULES, rules, figures=("rules",) if rules else ()),
        Section("low", "Very low temperatures", _LOW, figures=("low-temperatures",)),
        Section("theory", "Theory (section 4)", _THEORY, theory,
                figures=("bound", "bound-share", "margins", "last-index")),
    )  # fmt: skip
    return tuple(section for section in sections if section.tables or section.figures)


_CLAIMS = (
    "Each claim is tested at every alpha and every size of the CP set. A change counts if it is larger than 3 standard "
    "errors over the trials. The shape of a whole curve is judged from the differences between all pairs of its "
    "temperatures, with a limit that 95% of curves without any change stay below. Counterexamples are marked ✗ and "
    "listed."
)
_AGREEMENT = (
    "Rows marked 'published', by metric. The last two columns show how much agreement means: how many cells would "
    "still agree if the scores were swapped. "
    f"Any valid sets have a {_TITLES['marginal_coverage_gap']} near 0, whatever the method."
)
_CALIBRATION = (
    "T* is fitted on the calibration rows of each trial; reliability is shown on rows that T* was not fitted on. The "
    "printed T* has no error bar, so it counts as agreeing if it lies within 3 standard deviations of single fits. ECE "
    "bins rows by the confidence of the predicted label. The formula printed in appendix B.3 bins them by the "
    "probability of the true label: a slip, since that is not known when a confidence is reported."
)
_ROWS = "Sets of the same rows, with the same u, at T = 1 and at the T* of the trial."
_GUIDELINE = (
    "The guideline of section 5 is a choice of the user's: look at the curves of size and class gap against T, made "
    "from calibration rows, and take the T-hat that fits the task. Appendix D shows one such choice, the least "
    f"{_TITLES['top_coverage_gap']} of the curves of appendix C; that is the rule in this table. The code "
    "published with the paper has no thresholds by class. Rows marked 'published' are the nearest that was found. For "
    "Mondrian sets, the threshold of a class with few rows is its largest score: this promises nothing and does not "
    "give the printed sizes. For T-hat they are at T = 1, whose values are the printed ones of CIFAR-100 ResNet50; "
    "those printed of ImageNet ViT-B/16 are not its values at T = 1 (Table 1)."
)
_ALL_RULES = (
    "Every rule promises the same coverage. The worst tenth are the tenth of classes that are covered least (at least "
    "one class), averaged over u, because drawing u adds noise to class coverage. A correct top label is left out if "
    "the most likely label is right but not in the set. Scores at a stricter alpha cover more than was promised; they "
    "show how much of a gain comes from alpha, whatever the score. Gaps are measured against the promise, so covering "
    "too much counts as a gap too."
)
_LOW = "A plain softmax loses small probabilities to underflow, and coverage suffers."
_THEORY = (
    "What section 4 of the paper rests on: the margins of the logits, and a bound b(T) on them. For rows whose margin "
    "is above it, the theory says which way sets change with T; about the others it says nothing. The critical "
    "temperature of the theory is where b(T) is least above 1. It depends on the number of classes alone, and belongs "
    "to the proof: the sharp bound b*(T) has no minimum."
)


def _overview(studies: Sequence[PairStudy]) -> TextTable:
    alpha, cp = studies[0].settings.main
    lines = []
    for study in studies:
        at = find_cells(study.cells, mode="exact", alpha=alpha, cp_percent=cp)
        size, gap = ([at[name, "aps", when].value for when in _WHEN] for name in ("avg_size", "top_coverage_gap"))
        agreeing = {one.metric: f"{one.agree} of {one.printed}" for one in study.agreement}
        counted = Counter(claim.holds for claim in study.claims)
        lines.append(
            (
                study.title, f"{study.n_rows:,} x {study.n_classes:,}",
                f"{median_of_means(study.measured.trial_ece):.3f}",
                f"{size[0]:.2f} to {size[1]:.2f}", f"{gap[0]:.3f} to {gap[1]:.3f}",
                agreeing.get("avg_size", "-"), agreeing.get("top_coverage_gap", "-"),
                f"{counted[True]} hold, {counted[None]} open, {counted[False]} do not",
            )
        )  # fmt: skip
    size_title, gap_title = _TITLES["avg_size"], _TITLES["top_coverage_gap"]
    head = (
        "file", "rows x classes", "T* by ECE, median of means", f"{size_title} of APS, T = 1 to T*",
        f"{gap_title} of APS, T = 1 to T*", f"printed {size_title} that agree", f"printed {gap_title} that agree",
        "claims of the paper, over all settings",
    )  # fmt: skip
    return TextTable("overview", f"Files (alpha {alpha:g}, CP {cp}%)", head, tuple(lines))


def _claims(studies: Sequence[PairStudy], together: Sequence[Claim]) -> tuple[tuple[TextTable, ...], TextTable]:
    """By claim and file, on all files together, and the counterexamples; and every claim in full."""
    sources = {claim.text: claim.source for study in studies for claim in study.claims}
    lines = [
        (text, source, *(_short_verdict([c.holds for c in study.claims if c.text == text]) for study in studies))
        for text, source in sources.items()
    ]
    head = ("what the paper says", "where", *(study.title for study in studies))
    tables = [TextTable("claims", "The paper's claims, by file", head, tuple(lines), words=True)]
    if together:
        shared = tuple((c.text, _VERDICTS[c.holds], c.found, c.source) for c in together)
        heads = ("what the paper says", "verdict", "what the files show", "where")
        tables.append(TextTable("claims-all-files", "Claims about several files", heads, shared, words=True))
    whole = [(study, claim) for study in studies for claim in study.claims]
    against = [(study, claim) for study, claim in whole if claim.holds is False]
    if against:
        tables.append(_claims_table("counterexamples", "Counterexamples", against))
    return tuple(tables), _claims_table("claims-in-full", "Every claim, setting by setting", whole)


def _short_verdict(verdicts: list[bool | None]) -> str:
    """Verdicts of all settings in a few letters."""
    counted = Counter(verdicts)
    if len(verdicts) < 2:
        return _VERDICTS[verdicts[0]].split()[0] if verdicts else "-"
    if len(counted) == 1 and verdicts[0] is not None:
        return f"{_VERDICTS[verdicts[0]][0]} {len(verdicts)} of {len(verdicts)}"
    marks = ((True, "✓"), (False, "✗"), (None, "open"))
    return ", ".join(f"{counted[holds]} {mark}" for holds, mark in marks if counted[holds])


def _claims_table(name: str, title: str, claims: Sequence[tuple[PairStudy, Claim]]) -> TextTable:
    lines = []
    for study, claim in claims:
        level = f"alpha {claim.alpha:g}" if claim.alpha else ""
        setting = ", ".join(filter(None, (level, f"CP {claim.cp_percent}%" if claim.cp_percent else "")))
        lines.append((study.title, setting, _VERDICTS[claim.holds], claim.text, claim.found, claim.source))
    head = ("file", "setting", "verdict", "what the paper says", "what the file shows", "where")
    return TextTable(name, title, head, tuple(lines), words=True)


def _agreement(studies: Sequence[PairStudy]) -> tuple[TextTable, ...]:
    lines = tuple(
        (
            study.title, _TITLES[one.metric], f"{one.agree} of {one.printed}",
            f"{one.swapped:g} of {one.printed}", one.worth,
        )
        for study in studies
        for one in study.agreement
    )  # fmt: skip
    head = ("file", "metric", "cells that agree", "with the scores swapped", "what agreement means")
    return (TextTable("agreement", "Printed cells that agree, by metric", head, lines),) if lines else ()


def _temperatures(studies: Sequence[PairStudy]) -> tuple[TextTable, ...]:
    """Accuracy and T* as measured, and T* wherever the paper has it, if one of its pairs was studied."""
    kinds = {
        "top1": ("top-1 (%)", 100.0, 1),
        "top5": ("top-5 (%)", 100.0, 1),
        "temperature_ece": ("T* by ECE", 1.0, 3),
        "temperature_nll": ("T* by NLL", 1.0, 3),
    }
    lines = []
    for study in studies:
        by_metric = {cell.metric: cell for cell in study.cells}
        texts = [_text(by_metric[metric], scale, digits) for metric, (_, scale, digits) in kinds.items()]
        whole = f"{study.measured.ece:.3f} / {study.measured.nll:.3f}"
        ece = " to ".join(f"{table.ece:.3f}" for table in study.measured.reliability)
        lines.append((study.title, f"{study.n_rows:,} x {study.n_classes:,}", *texts, whole, ece))
    names = (name for name, _, _ in kinds.values())
    head = ("file", "rows x classes", *names, "T* of all rows, ECE / NLL", "ECE on unseen rows, T = 1 to T*")
    title = "Accuracy and T* (fitted on the calibration rows of each trial)"
    summary = TextTable("temperatures", title, head, tuple(lines))
    measured = {study.pair: study.measured for study in studies if study.pair is not None}
    places = {
        "temperature_ece": "Table 1",
        "temperature_ece_compared": "appendix B.3, ECE",
        "temperature_code": "published code",
        "temperature_nll": "appendix B.3, NLL",
    }
    if not measured:
        return (summary,)
    lines = []
    for pair in PAIRS:
        cells = [find_printed(pair, kind) for kind in places]
        own = measured.get(pair)
        mine = f"{median_of_means(own.trial_ece):.3f} / {median_of_means(own.trial_nll):.3f}" if own else "-"
        lines.append((str(pair), *(f"{cell.value:g}" if cell else "-" for cell in cells), mine))
    head = ("pair", *places.values(), "here, ECE / NLL, median of means")
    return summary, TextTable("printed-temperatures", "T* in the paper and in its published code", head, tuple(lines))


def _at_level(studies: Sequence[PairStudy], alpha: float) -> Section:
    """Sizes and gaps at one level, the main size of the conformal set open."""
    settings = studies[0].settings
    tables = {cp: tuple(_method_table(studies, metric, alpha, cp) for metric in _SHOWN) for cp in settings.cp_percents}
    shown = tables.pop(settings.main[1])
    folded = tuple(itertools.chain.from_iterable(tables.values()))
    title = f"Set sizes and coverage at alpha = {alpha:g}"
    shared = ("figure-1",) if alpha == settings.main[0] else ()
    return Section(f"alpha-{alpha:g}", title, "", shown, folded, (f"curves-alpha-{alpha:g}",), shared)


def _method_table(studies: Sequence[PairStudy], metric: str, alpha: float, cp: int) -> TextTable:
    """A table over methods, before and after temperature scaling."""
    shown, scale, digits = _SHOWN[metric]
    columns = [(method, at) for at in _WHEN for method in METHODS]
    lines = []
    for study in studies:
        for mode in ("exact", "published"):
            matches = find_cells(study.cells, mode=mode, metric=metric, alpha=alpha, cp_percent=cp)
            if matches:  # no gap over all classes is printed
                cells = [matches[metric, *column] for column in columns]
                texts = (f"{_value(cell, scale, digits)} {_marks(cell)}".rstrip() for cell in cells)
                lines.append((study.title, mode, *texts))
        printed = [find_printed(study.pair, metric, method, at, alpha, cp) for method, at in columns]
        if any(printed):
            texts = ("-" if one is None else f"{round(scale * one.value, 6):.{digits}f}" for one in printed)
            lines.append((study.title, "printed", *texts))
    name, number = _FILES[metric]
    head = [f"{method.upper()}{' after TS' if at == 'after' else ''}" for method, at in columns]
    title = f"{number if (alpha, cp) == _MAIN else ''}{shown}, alpha {alpha:g}, CP {cp}%"
    return TextTable(f"{name}-alpha-{alpha:g}-cp-{cp}", title, ("file", "mode", *head), tuple(lines))


def _comparisons(studies: Sequence[PairStudy]) -> tuple[TextTable, ...]:
    """Appendix D, a table for each size of the conformal set."""
    alpha, _ = studies[0].settings.main
    tables = []
    for cp in studies[0].comparison.cp_percents:
        lines = []
        for study in studies:
            mine = [cell for cell in study.comparison.cells if (cell.method, cell.cp_percent) == ("raps", cp)]
            for mode, at in dict.fromkeys((cell.mode, cell.at) for cell in mine):
                cells = {cell.metric: cell for cell in mine if (cell.mode, cell.at) == (mode, at)}
                mean = "" if mode == "published" else study.comparison.mean_temperature("raps", at, cp)
                lines.append((study.title, rule_label(mode, at), mode, mean, *_texts(cells, _SHOWN)))
        head = ("file", "rule", "mode", "mean T", *_head(_SHOWN))
        title = f"Appendix D. Even class coverage, RAPS, alpha {alpha:g}, CP {cp}%"
        tables.append(TextTable(f"comparison-cp-{cp}", title, head, tuple(lines)))
    return tuple(tables)


def _rules(studies: Sequence[PairStudy]) -> tuple[TextTable, ...]:
    """Every rule that is valid, score by score, with what its sets cost and which rows lose."""
    alpha, _ = studies[0].settings.main
    tables = []
    for cp in studies[0].comparison.cp_percents:
        lines = []
        for study in studies:
            for (method, at), cells in study.comparison.by_rule(cp).items():
                mean = study.comparison.mean_temperature(method, at, cp)
                lines.append((study.title, method.upper(), rule_label("exact", at), mean, *_texts(cells, _COSTS)))
        head = ("file", "score", "rule", "mean T", *_head(_COSTS))
        tables.append(
            TextTable(f"rules-cp-{cp}", f"All rules, promised coverage {1 - alpha:.0%}, CP {cp}%", head, tuple(lines))
        )
    return tuple(tables)


def _texts(cells: Mapping[str, Cell], columns: Mapping[str, tuple[str, float, int]]) -> list[str]:
    texts = [_text(cells[metric], scale, digits) for metric, (_, scale, digits) in columns.items()]
    return [*texts, str(cells["avg_size"].trials)]


def _head(columns: Mapping[str, tuple[str, float, int]]) -> list[str]:
    return [*(title for title, _, _ in columns.values()), "trials"]


def _bounds(studies: Sequence[PairStudy]) -> TextTable:
    lines = []
    for study in studies:
        bounds = study.bounds
        both = zip(bounds.bound, bounds.above_bound, bounds.sharp_bound, bounds.above_sharp_bound, strict=True)
        for at, t, (b, above, sharp, rows) in zip(BOUNDS_AT, bounds.temperature, both, strict=True):
            numbers = f"{t:.3f}", f"{b:.2f}", f"{above:.1%}", f"{sharp:.2f}", f"{rows:.1%}"
            lines.append((study.title, f"{study.n_classes:,}", at, *numbers))
    head = ("file", "classes", "at", "T", "b(T)", "margins above b(T)", "sharp b*(T)", "margins above b*(T)")
    return TextTable("bounds", "Section 4. The bounds on the margin, and the rows above them", head, tuple(lines))


def _statements(studies: Sequence[PairStudy]) -> TextTable:
    """How many rows of each file a statement applies to, and for how many it is not true."""
    lines = []
    for each in zip(*(study.statements for study in studies), strict=True):
        counts = [f"{one.premise:,} of {one.rows:,}; {one.violations} against" for one in each]
        lines.append((each[0].name, each[0].text, *counts))
    head = ("statement", "what it says", *(study.title for study in studies))
    title = "Section 4 and appendix A. Rows that each statement applies to, from T = 1 to T*, and rows against it"
    return TextTable("statements", title, head, tuple(lines), words=True)


def _quantiles(studies: Sequence[PairStudy]) -> TextTable:
    lines = []
    for study in studies:
        samples = study.quantiles
        for i, (name, temperature) in enumerate(zip(QUANTILES_AT, samples.temperature, strict=True)):
            probs = " ".join(f"{p:.4e}" for p in samples.top_probs[i])
            at = f"{temperature:.3f}", f"{samples.threshold[i]:.4f}", f"{samples.margin[i]:.2f}"
            lines.append((study.title, name, *at, probs, _printed_probs(study, name)))
    probs_at = "five largest probabilities at T = 1"
    head = ("file", "sample at", "T", "threshold", "margin", probs_at, "printed")
    return TextTable("quantile-samples", "Appendix B.6. The quantile sample at four temperatures", head, tuple(lines))


def _printed_probs(study: PairStudy, at: str) -> str:
    cells = [find_printed(study.pair, f"quantile_probability_{i}", "aps", at) for i in range(1, 6)]
    return " ".join(f"{cell.value:.4e}" for cell in cells if cell is not None)


def _text(cell: Cell, scale: float, digits: int) -> str:
    """A cell as a reader sees it, with the printed number."""
    if cell.printed is None:
        return _value(cell, scale, digits)
    marks = _marks(cell)
    return f"{_value(cell, scale, digits)} [{round(scale * cell.printed, 6):g}{' ' if marks else ''}{marks}]"


def _value(cell: Cell, scale: float, digits: int) -> str:
    value, error = scale * cell.value, scale * cell.standard_error
    more = next((d for d in range(digits, digits + 3) if error >= 0.5 * 10**-d), digits)  # an error is not 0.00
    return f"{value:.{more}f} ± {error:.{more}f}" if error > 0 else f"{value:.{digits}f}"


def _marks(cell: Cell) -> str:
    """Whether the printed number disagrees, whatever the choices, or is another statistic."""
    if cell.agrees is False:
        return "✗†" if cell.note.startswith("not reproducible") else "✗"
    return "‡" if cell.definition else ""


def paper_tables(studies: Sequence[PairStudy]) -> dict[str, str]:
    """LaTeX of tables 1 and 2, those of appendix B.3 and B.4, and that of appendix D, by name."""
    settings, heads = studies[0].settings, [{cell.metric: cell.value for cell in s.cells} for s in studies]
    titles = [study.title for study in studies]
    stars, nll = ([f"{numbers[f'temperature_{by}']:.3f}" for numbers in heads] for by in ("ece", "nll"))
    accuracy = [(f"{100 * numbers['top1']:.1f}", f"{100 * numbers['top5']:.1f}") for numbers in heads]
    caption = "Optimal temperature for NLL and ECE objectives."
    columns = ("Dataset-Model", "$T^*$ - NLL loss", "$T^*$ - ECE loss")
    tables = {"paper-temperatures": _latex(caption, (), columns, list(zip(titles, nll, stars, strict=True)))}
    size, marginal, top = (_TITLES[name] for name in ("avg_size", "marginal_coverage_gap", "top_coverage_gap"))
    scores = tuple(method.upper() for method in METHODS)
    over_sizes = ("", 1), ("", 1), (r"Accuracy (\%)", 2), (size, 3), (f"{size} after TS", 3)
    over_gaps = ("", 1), *((rf"{name}{after} (\%)", 3) for name in (marginal, top) for after in ("", " TS"))
    for alpha, cp in itertools.product(settings.alphas, settings.cp_percents):
        names = f"sizes-alpha-{alpha:g}-cp-{cp}", f"coverage-alpha-{alpha:g}-cp-{cp}"
        if (alpha, cp) == _MAIN:
            names = "table-1", "table-2"
        where = rf"$\alpha = {alpha:g}$, CP set size ${cp}\%$, pre- and post-TS calibration"
        values = [_rounded_values(study, alpha, cp) for study in studies]
        lines = [(*known, *top_k, *v[:6]) for *known, top_k, v in zip(titles, stars, accuracy, values, strict=True)]
        caption = f"Prediction set size. {size}, $T^*$ and accuracy with {where}."
        head = ("Dataset-Model", "$T^*$", "Top-1", "Top-5", *scores * 2)
        tables[f"paper-{names[0]}"] = _latex(caption, [over_sizes], head, lines)
        lines = [(title, *v[6:]) for title, v in zip(titles, values, strict=True)]
        caption = f"Coverage metrics. {marginal} and {top} with {where}."
        tables[f"paper-{names[1]}"] = _latex(caption, [over_gaps], ("Dataset-Model", *scores * 4), lines)
    if studies[0].comparison.cells:
        tables["paper-appendix-d"] = _mondrian(studies, studies[0].comparison.cp_percents)
    return tables


def _rounded_values(study: PairStudy, alpha: float, cp: int) -> list[str]:
    """Sizes and both gaps of LAC, APS and RAPS before and after temperature scaling, as the paper rounds them."""
    cells = find_cells(study.cells, mode="published", alpha=alpha, cp_percent=cp)
    rounded = ("avg_size", 1, 2), ("marginal_coverage_gap", 100, 1), ("top_coverage_gap", 100, 1)
    return [
        f"{scale * cells[metric, method, at].value:.{digits}f}"
        for metric, scale, digits in rounded
        for at in _WHEN
        for method in METHODS
    ]


def _mondrian(studies: Sequence[PairStudy], compared: Sequence[int]) -> str:
    lines = []
    for metric, digits in (("avg_size", 1), ("marginal_coverage_gap", 2), ("top_coverage_gap", 2)):
        values = [
            f"{find_cells(study.comparison.cells, mode='exact', cp_percent=cp)[metric, 'raps', at].value:.{digits}f}"
            for study in studies
            for at in ("mondrian", "t_hat")
            for cp in compared
        ]
        lines.append((_TITLES[metric], *values))
    n = len(compared)
    files = ("", 1), *((_rows([(study.title,)])[0].removesuffix(r" \\"), 2 * n) for study in studies)
    rules = ("", 1), *((name, n) for _ in studies for name in ("MCP", r"TS with $\hat{T}$"))
    head = (r"CP set size (\%)", *(rf"{cp}\%" for _ in range(2 * len(studies)) for cp in compared))
    gap = _TITLES["top_coverage_gap"]
    caption = rf"Mondrian CP (MCP) and TS with $\hat{{T}} = \arg\min_T \mathrm{{{gap}}}(T)$, both based on RAPS."
    return _latex(caption, [files, rules], head, lines)


def _latex(
    caption: str, groups: Sequence[Sequence[tuple[str, int]]], head: Sequence[str], lines: Sequence[Sequence[str]]
) -> str:
    """A table with heads over groups of columns; cells are escaped, heads are LaTeX."""
    above = []
    for names in groups:
        cells = (name if width == 1 else rf"\multicolumn{{{width}}}{{c}}{{\textbf{{{name}}}}}" for name, width in names)
        ends = list(itertools.accumulate(width for _, width in names))
        rules = (
            rf"\cmidrule(lr){{{end - width + 1}-{end}}}" for (name, width), end in zip(names, ends, strict=True) if name
        )
        above += [" & ".join(cells) + r" \\", " ".join(rules)]
    return "\n".join(
        [
            r"\begin{table}", r"\centering", rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}", r"\toprule", *above, " & ".join(head) + r" \\",
            r"\midrule", *_rows(lines), r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
        ]
    )  # fmt: skip


def _rows(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, escaped by `TextTable`."""
    whole = TextTable("", "", ("",) * len(lines[0]), tuple(map(tuple, lines))).to_latex()
    return [row for row in whole.split("\n") if row.endswith(r"\\")][1:]
