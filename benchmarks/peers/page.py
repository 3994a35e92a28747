"""What was measured, as a page of the documentation and a figure."""

from collections.abc import Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.peers.measuring import ALPHA, CLASSES, COLD, CONFORMAL, OURS, ROWS, SPLITS, Found

__all__ = ["figure", "markdown"]

_SHOWN = ("T*", "LAC sets", "APS sets", "one row", "memory")
_TITLES = {
    "T*": "fit T*",
    "LAC sets": "LAC sets",
    "APS sets": "randomised APS sets",
    "one row": "set of a single row",
    "memory": "memory beyond the input",
}


def markdown(found: Sequence[Found], machine: str) -> str:
    """The page."""
    return "\n".join([*_head(machine), *_times(found), *_cold(found), *_sweep(found)]) + "\n"


def _head(machine: str) -> list[str]:
    return [
        "# Beside other libraries",
        "",
        "Written by `make bench-peers`: every library gets the same rows in the same run, in an environment of its own",
        f"with pinned versions. {machine}.",
        "",
        f"Generated logits, {ROWS:,} × {CLASSES:,} float32, {CONFORMAL:,} conformal rows, alpha = {ALPHA}. A ratio",
        "says how many times as long (or as much memory) a library takes as thermoset does; larger is slower.",
        "",
        "![Ratios to thermoset's time and memory, by library.](images/peers.png)",
        "",
    ]


def _times(found: Sequence[Found]) -> list[str]:
    lines: list[str] = []
    for job in _SHOWN:
        of_job = [one for one in found if one.job == job]
        ours = next(one.value for one in of_job if one.library == OURS)
        unit = "MB" if job == "memory" else "seconds"
        lines += [
            f"## {_TITLES[job][0].upper()}{_TITLES[job][1:]}",
            "",
            f"| library | {unit} | ratio | |",
            "|---|---|---|---|",
        ]
        for one in of_job:
            value = "–" if one.value is None else _told(one.value / 1e6 if job == "memory" else one.value)
            ratio = "–" if one.value is None or not ours else f"{one.value / ours:.2g}"
            lines.append(f"| {one.library} | {value} | {ratio} | {one.note} |")
        lines.append("")
    return lines


def _cold(found: Sequence[Found]) -> list[str]:
    lines = [
        "## Coverage when a softmax saturates",
        "",
        f"The bundled real logits divided by T, random halves, {SPLITS} splits; {1 - ALPHA:g} was asked for. At low",
        "temperatures probabilities round to 0 and 1, and scores tie.",
        "",
        "| library | score | " + " | ".join(f"T = {t:g}" for t in COLD) + " |",
        "|---|---|" + "---|" * len(COLD),
    ]
    by_place = {(one.library, one.job): one for one in found}
    pairs = dict.fromkeys((one.library, one.job.split(" at ")[0]) for one in found if " at T = " in one.job)
    for library, score in pairs:
        cells = [by_place[library, f"{score} at T = {t:g}"] for t in COLD]
        told = [one.note if one.value is None else f"{one.value:.3f} ({one.note})" for one in cells]
        lines.append(f"| {library} | {score} | " + " | ".join(told) + " |")
    return [*lines, ""]


def _sweep(found: Sequence[Found]) -> list[str]:
    ours, loop = (one for one in found if one.job == "sweep")
    assert ours.value is not None and loop.value is not None  # noqa: S101, PT018 (both are ours to run)
    return [
        "## A sweep",
        "",
        f"46 temperatures, three scores, 100 trials and all metrics on 10,000 × 100 logits take {_told(ours.value)} s.",
        f"A plain NumPy loop over trials, as published scripts do it, would take {_told(loop.value)} s ({loop.note}):",
        f"{loop.value / ours.value:,.0f} times as long.",
    ]


def figure(found: Sequence[Found]) -> Figure:
    """Ratios to thermoset, a row of dots for each job."""
    made = Figure(figsize=(8.4, 3.4), layout="constrained")
    FigureCanvasAgg(made)
    ax = made.subplots()
    libraries = list(dict.fromkeys(one.library for one in found if one.job in _SHOWN and one.library != OURS))
    colours = {name: f"C{i}" for i, name in enumerate(libraries)}
    marks = dict(zip(libraries, "osD^vP*X", strict=False))
    for place, job in enumerate(_SHOWN):
        ours = next(one.value for one in found if one.job == job and one.library == OURS)
        for one in found:
            if one.job == job and one.library != OURS and one.value and ours:
                ax.plot(
                    one.value / ours, -place, marks[one.library], color=colours[one.library], markersize=8, alpha=0.85
                )
    for name in libraries:
        ax.plot([], [], marks[name], color=colours[name], label=name)
    ax.axvline(1, color="black", linewidth=1)
    ax.text(1.02, 0.45, "thermoset", fontsize=9)
    ax.set_xscale("log")
    ax.set_yticks([-place for place in range(len(_SHOWN))], [_TITLES[job] for job in _SHOWN])
    ax.set_ylim(-len(_SHOWN) + 0.5, 0.8)
    ax.set_xlabel("times as long, or as much memory, as thermoset")
    ax.grid(axis="x", alpha=0.3)
    made.legend(loc="outside right center", frameon=False)
    return made


def _told(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
