"""What was measured, as a page of the documentation, its figure, and the README's lines about it."""

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from benchmarks.pages import write_between
from benchmarks.peers.answers import cell_job
from benchmarks.peers.results import (
    ALPHA,
    COMPARED,
    DRAWN,
    OURS,
    Plan,
    Result,
    ahead,
    law_of_coverage,
    of_job,
    ratios,
    records,
    smaller_sets,
    times,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["figure", "markdown", "readme_lines", "write"]

_TEMPLATE = Path(__file__).with_name("template.md")
_LINKS = {
    "scikit-learn": "https://scikit-learn.org",
    "probmetrics": "https://github.com/dholzmueller/probmetrics",
    "netcal": "https://github.com/EFS-OpenSource/calibration-framework",
    "torch": "https://pytorch.org",
    "mapie": "https://github.com/scikit-learn-contrib/MAPIE",
    "torchcp": "https://github.com/ml-stat-Sustech/TorchCP",
    "crepes": "https://github.com/henrikbostrom/crepes",
    "puncc": "https://github.com/deel-ai/puncc",
    "torch-uncertainty": "https://github.com/ENSTA-U2IS-AI/torch-uncertainty",
}
_MORE, _LESS, _INK, _GRID = "#0072B2", "#D55E00", "#333333", "#dddddd"
_COLUMNS = 3


def write(document: dict[str, Any], root: Path) -> None:
    """The page, the figure and the README's lines."""
    (root / "docs" / "peers.md").write_text(markdown(document), encoding="utf-8")
    figure(records(document)).savefig(root / "docs" / "images" / "peers.png", dpi=150)
    write_between(root / "README.md", "peers", readme_lines(document))
    print("Wrote docs/peers.md, docs/images/peers.png and a part of README.md")


def readme_lines(document: dict[str, Any]) -> str:
    """The figure, the same in words for those who do not see it, and where the numbers come from."""
    return (
        f'<img src="docs/images/peers.png" alt="{_in_words(records(document))}" width="820">\n\n'
        "[Compared with other libraries](docs/peers.md) says how it was measured and where others are ahead, compares\n"
        "the sets label for label, and shows which keep their coverage at low temperatures.\n"
    )


def markdown(document: dict[str, Any]) -> str:
    """The page; a section of which something was not measured is left out."""
    results, plan = records(document), Plan(**document["plan"])
    law = law_of_coverage(plan)
    values = {
        **_sizes(plan),
        **_machine(document["machine"]),
        "files": f"{document['files']} files" if document["files"] > 1 else "one file",
        "low": f"{law[0]:.4f}",
        "high": f"{law[1]:.4f}",
        "ahead": _ahead(results),
        "in_words": _in_words(results),
        "temperatures": _temperatures(results),
        "confidences": _confidences(results),
        "lac": _sets(results, "LAC", "LAC"),
        "aps": _sets(results, "APS", "randomised APS"),
        "small": _small(results),
        "uncompiled": _uncompiled(results),
        "cold": _cold(results, plan, law),
        "answers": _answers(results, plan),
        "by_file": _by_file(results, plan),
        "sweep": _sweep(results),
        "installations": _installations(results),
    }
    sections = [Template(text) for text in _TEMPLATE.read_text(encoding="utf-8").split("\n## ")]
    kept = [one.substitute(values) for one in sections if all(values[name] for name in one.get_identifiers())]
    return "\n## ".join(kept)


def _sizes(plan: Plan) -> dict[str, str]:
    return {
        "rows": f"{plan.rows:,}",
        "classes": f"{plan.classes:,}",
        "conformal": f"{plan.conformal_rows:,}",
        "alpha": f"{ALPHA:g}",
        "nominal": f"{1 - ALPHA:g}",
        "input_mb": f"{4 * plan.rows * plan.classes / 1e6:.0f}",
        "splits": str(plan.splits),
        "cold_rows": f"{plan.split_rows:,}",
        "swept": f"{plan.swept_rows:,} × {plan.swept_classes:,}",
        "calibration_rows": f"{plan.calibration_rows:,}",
        "calibration_draws": str(plan.calibration_draws),
        "answer_draws": str(plan.answer_draws),
        "repeats": str(plan.repeats),
    }


def _machine(machine: dict[str, Any]) -> dict[str, str]:
    return {
        "where": (
            f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']},\n"
            f"  {machine['month']}; load average {machine['load']:g}."
        ),
        "versions": ",\n  ".join(
            f"[{package}]({_LINKS[package]}) {version}" if package in _LINKS else f"{package} {version}"
            for package, version in machine["versions"].items()
        ),
    }


def _ahead(results: Sequence[Result]) -> str:
    """Where another library needs less, or has smaller sets at no less coverage."""
    lines = [f"- {title}: {_listed(less)}".replace("*", r"\*") for title, less in ahead(results)]
    lines += [
        f"- smaller {one.job} at no less coverage: {one.library} ({one.details['size']:.2f} labels, "
        f"{one.details['coverage']:.4f} covered)"
        for one in smaller_sets(results)
    ]
    return "**Where another library is ahead:**\n\n" + "\n".join(lines) if lines else "No other library was ahead."


def _listed(pairs: Sequence[tuple[str, float]]) -> str:
    return "; ".join(f"{name} {times(ratio)}" for name, ratio in pairs)


def _in_words(results: Sequence[Result]) -> str:
    """The figure in words: the least and the most of each panel."""
    said = []
    for title, pairs in _panels(results):
        said.append(f"{title}: " + _listed(pairs[:1]) + (" to " + _listed(pairs[-1:]) if len(pairs) > 1 else ""))
    return "What other libraries take as a multiple of what thermoset takes. " + "; ".join(said) + "."


def _temperatures(results: Sequence[Result]) -> str:
    rows = []
    for one in of_job(results, "T*"):
        ours = of_job(results, "T*")[0].details["T"]
        off = "–" if one.library == OURS or not one.value else f"{abs(one.details['T'] - ours):.0e}"
        rows.append([one.library, *_took(results, one), f"{one.details['T']:.7f}" if one.value else "", off])
    return _table(["library", "seconds", "ratio", "T", "off by"], rows)


def _confidences(results: Sequence[Result]) -> str:
    losses, fits = ({one.library: one for one in of_job(results, job)} for job in ("log-loss", "confidence"))
    rows = [
        [one.library, f"{one.value:.4f}", f"{losses[one.library].value:.4f}", _digits(fits[one.library].value)]
        if one.value is not None
        else [one.library, one.missing, "", ""]
        for one in of_job(results, "ECE")
    ]
    return _table(["method", "ECE", "log-loss", "seconds to fit"], rows)


def _sets(results: Sequence[Result], score: str, title: str) -> str:
    rows = []
    for one in of_job(results, f"{score} sets"):
        details = one.details
        shown = [f"{details['coverage']:.4f}", f"{details['size']:.2f}"] if one.value else ["", ""]
        same = "–" if one.library == OURS or not one.value else f"{details['different rows']:,.0f}"
        rows.append([one.library, *_took(results, one), *shown, same])
    return _table([title, "seconds", "ratio", "coverage", "labels in a set", "sets that differ from thermoset's"], rows)


def _small(results: Sequence[Result]) -> str:
    started, memories = ({one.library: one for one in of_job(results, job)} for job in ("first set", "memory"))
    rows = [
        [
            one.library,
            *_took(results, one, 1e3),
            *_took(results, started[one.library]),
            *_took(results, memories[one.library], 1e-6),
        ]
        for one in of_job(results, "one row")
        if one.library in started
    ]
    return _table(["library", "ms for one row", "ratio", "s from start", "ratio", "MB beyond the input", "ratio"], rows)


def _uncompiled(results: Sequence[Result]) -> str:
    seconds = [_digits(one.value) for one in of_job(results, "first start") if one.library == OURS and one.value]
    if not seconds:
        return ""
    return f"thermoset compiles its loops at the first start after an installation, which takes {seconds[0]} s."


def _cold(results: Sequence[Result], plan: Plan, law: tuple[float, float]) -> str:
    by_place = {(one.library, one.job): one for one in results}
    rows = []
    for score in ("LAC", "APS"):
        for library in dict.fromkeys(one.library for one in results):
            cells = [by_place.get((library, f"{score} at T = {t:g}")) for t in plan.temperatures]
            rows += [[f"{score}, {library}", *(_covered(one, *law) for one in cells if one)]] if all(cells) else []
    return _table(["", *(f"T = {t:g}" for t in plan.temperatures)], rows)


def _covered(one: Result, low: float, high: float) -> str:
    if one.value is None:
        return one.missing
    shown = f"{one.value:.4f}"
    return (shown if low <= one.value <= high else f"**{shown}**") + f" ({_digits(one.details['size'])})"


def _answers(results: Sequence[Result], plan: Plan) -> str:
    cells = [(cell, of_job(results, cell_job(*cell))) for cell in plan.answer_cells]
    rows = [
        [f"{float(error):.0%}", f"{n:,}", *(f"{one.value:.3f} ({one.details['broken']:.0%})" for one in several)]
        for (error, n), several in cells
        if several
    ]
    return _table(["error at most", "rows", *(one.library.replace("*", r"\*") for one in cells[0][1])], rows)


def _by_file(results: Sequence[Result], plan: Plan) -> str:
    """In how many pairs of a cell and a file the best setting of another library answers more than ours."""
    more = []
    for cell in plan.answer_cells:
        shares = [{k: v for k, v in one.details.items() if k != "broken"} for one in of_job(results, cell_job(*cell))]
        for ours in shares[:1]:
            more += [max(one[file] for one in shares[1:]) - ours[file] for file in ours]
    if not more:
        return ""
    least, most = min(more), max(more)
    return (
        f"File by file, the best of its settings answers more in {sum(gain > 0 for gain in more)} of {len(more)}\n"
        f"comparisons, by up to {max(100 * most, 0):.0f} points; elsewhere it answers up to "
        f"{max(-100 * least, 0):.0f} points less."
    )


def _sweep(results: Sequence[Result]) -> str:
    return _table(["", "seconds", "ratio"], [[one.library, *_took(results, one)] for one in of_job(results, "sweep")])


def _installations(results: Sequence[Result]) -> str:
    lines = {one.library: one for one in of_job(results, "lines")}
    rows = []
    for one in of_job(results, "installed"):
        whole, ratio = _took(results, one, 1e-6)
        if one.value:
            own = _digits(one.details["own"] / 1e6)
            whole = f"more than {whole}" if one.details["absent"] else whole
            rows.append([one.library, own, whole, ratio, f"{lines[one.library].value:,.0f}"])
        else:
            rows.append([one.library, one.missing, "", "", ""])
    return _table(["library", "MB alone", "MB with requirements", "ratio", "lines"], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Nothing without rows."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) if rows else ""


def _took(results: Sequence[Result], one: Result, scale: float = 1.0) -> list[str]:
    """The value and its ratio to ours; or why there is none."""
    if one.value is None:
        return [one.missing, ""]
    ratio = "1×" if one.library == OURS else times(dict(ratios(results, one.job))[one.library])
    return [_digits(scale * one.value), ratio]


def _digits(value: float) -> str:
    """Three digits, or whole numbers."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _panels(results: Sequence[Result]) -> list[tuple[str, list[tuple[str, float]]]]:
    """Titles and ratios of what is drawn."""
    return [(COMPARED[job], pairs) for job in DRAWN if (pairs := ratios(results, job))]


def figure(results: Sequence[Result]) -> "Figure":
    """A panel for each job, with bars from 1, where thermoset is: to the right for more and to the left for less."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = _panels(results)
    rows = [panels[start : start + _COLUMNS] for start in range(0, len(panels), _COLUMNS)]
    places = [max(len(pairs) for _, pairs in row) for row in rows]
    figure = Figure(figsize=(10.5, 0.42 * sum(places) + 0.6 * len(rows) + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    every = [ratio for _, pairs in panels for _, ratio in pairs]
    limits = min(0.5, *every) / 1.3, max(every) * 8
    axes = figure.subplots(len(rows), _COLUMNS, squeeze=False, gridspec_kw={"height_ratios": places})
    for i, ax in enumerate(axes.flat):
        if i < len(panels):
            title, pairs = panels[i]
            _draw_bars(ax, pairs)
            _style(ax, title, limits, places[i // _COLUMNS])
        else:
            ax.axis("off")
    figure.supxlabel("times as much as thermoset (the line at 1); orange: less", fontsize=10, color=_INK)
    return figure


def _draw_bars(ax: Any, pairs: Sequence[tuple[str, float]]) -> None:
    """Least first, from the top; each under its name."""
    for place, (name, ratio) in enumerate(pairs):
        ax.barh(-place, ratio - 1, left=1, height=0.4, color=_MORE if ratio >= 1 else _LESS)
        ax.text(max(ratio, 1) * 1.18, -place, times(ratio), va="center", fontsize=9, color=_INK)
        ax.text(1.12, 0.28 - place, name, va="bottom", fontsize=9, color=_INK)
    ax.axvline(1, color=_INK, linewidth=1.2)


def _style(ax: Any, title: str, limits: tuple[float, float], places: int) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    ax.set_xscale("log")
    ax.set_xlim(*limits)
    ax.set_ylim(-places + 0.6, 0.75)
    ax.set_yticks([])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_title(title[0].upper() + title[1:], loc="left", fontsize=10.5, fontweight="bold", color=_INK)
    ax.tick_params(axis="x", labelsize=8, colors=_INK, length=0)
    ax.grid(axis="x", color=_GRID, linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left", "bottom"):
        ax.spines[side].set_visible(False)
