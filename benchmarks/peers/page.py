"""What was measured, as a page of the documentation and the README's lines about it."""

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.documents import write_between
from benchmarks.peers.plan import ALPHA, OURS, REPEATS, Found, Plan
from benchmarks.peers.reading import JOBS, faster, law_of_coverage, multiple, of_job, ratios, records

__all__ = ["markdown", "readme_lines", "write"]

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


def write(document: dict[str, Any], root: Path) -> None:
    """The page, the figure and the README's lines."""
    from benchmarks.peers.figure import figure

    (root / "docs" / "peers.md").write_text(markdown(document), encoding="utf-8")
    figure(records(document)).savefig(root / "docs" / "images" / "peers.png", dpi=150)
    write_between(root / "README.md", "peers", readme_lines(document))
    print("Wrote docs/peers.md, docs/images/peers.png and a part of README.md")


def readme_lines(document: dict[str, Any]) -> str:
    """The figure, the same in words for those who do not see it, and where the numbers come from."""
    return (
        f'<img src="docs/images/peers.png" alt="{_in_words(records(document))}" width="820">\n\n'
        "Processor time and memory, one thread each. [Compared with other libraries](docs/peers.md) says how it was\n"
        "measured, compares the sets label for label, and shows which keep their coverage at low temperatures.\n"
    )


def markdown(document: dict[str, Any]) -> str:
    """The page."""
    found, plan = records(document), Plan(**document["plan"])
    low, high = law_of_coverage(plan)
    ahead = "; ".join(faster(found))
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        **_sizes(plan),
        **_machine(document["machine"]),
        faster=f"These took less than thermoset: {ahead}." if ahead else "Nobody took less than thermoset.",
        in_words=_in_words(found),
        temperatures=_temperatures(found),
        lac=_sets(found, "LAC", "LAC"),
        aps=_sets(found, "APS", "randomised APS"),
        small=_small(found),
        cold=_cold(found, plan, (low, high)),
        low=f"{low:.4f}",
        high=f"{high:.4f}",
        sweep=_table(["", "seconds", "ratio"], [[one.library, *_took(found, one)] for one in of_job(found, "sweep")]),
    )


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
        "repeats": str(REPEATS),
    }


def _machine(machine: dict[str, Any]) -> dict[str, str]:
    return {
        "where": (
            f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']},\n"
            f"  {machine['month']}; load average {machine['load']:g}."
        ),
        "versions": ",\n  ".join(_versioned(package, shown) for package, shown in machine["versions"].items()),
    }


def _in_words(found: Sequence[Found]) -> str:
    said = "; ".join(
        f"{title}: " + ", ".join(f"{name} {multiple(ratio)}" for name, ratio in ratios(found, job))
        for job, title in JOBS.items()
    )
    return f"Time or memory of other libraries as a multiple of what thermoset takes. {said}."


def _temperatures(found: Sequence[Found]) -> str:
    several = of_job(found, "T*")
    ours = several[0].seen["T"]
    rows = []
    for one in several:
        off = "–" if one.library == OURS or not one.value else f"{abs(one.seen['T'] - ours):.0e}"
        rows.append([one.library, *_took(found, one), f"{one.seen['T']:.7f}" if one.value else "", off])
    return _table(["library", "seconds", "ratio", "T", "off by"], rows)


def _sets(found: Sequence[Found], score: str, title: str) -> str:
    rows = []
    for one in of_job(found, f"{score} sets"):
        seen = one.seen
        shown = [f"{seen['coverage']:.4f}", f"{seen['size']:.2f}"] if one.value else ["", ""]
        same = "–" if one.library == OURS or not one.value else f"{seen['different rows']:,.0f}"
        rows.append([one.library, *_took(found, one), *shown, same])
    return _table([title, "seconds", "ratio", "coverage", "labels in a set", "sets that differ from thermoset's"], rows)


def _small(found: Sequence[Found]) -> str:
    memories = {one.library: one for one in of_job(found, "memory")}
    rows = [
        [one.library, *_took(found, one, 1e3), *_took(found, memories[one.library], 1e-6)]
        for one in of_job(found, "one row")
    ]
    return _table(["library", "ms for one row", "ratio", "MB beyond the input", "ratio"], rows)


def _cold(found: Sequence[Found], plan: Plan, law: tuple[float, float]) -> str:
    by_place = {(one.library, one.job): one for one in found}
    rows = []
    for score in ("LAC", "APS"):
        for library in dict.fromkeys(one.library for one in found):
            cells = [by_place.get((library, f"{score} at T = {t:g}")) for t in plan.temperatures]
            rows += [[f"{score}, {library}", *(_covered(one, *law) for one in cells if one)]] if all(cells) else []
    return _table(["", *(f"T = {t:g}" for t in plan.temperatures)], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _versioned(package: str, version: str) -> str:
    return f"[{package}]({_LINKS[package]}) {version}" if package in _LINKS else f"{package} {version}"


def _took(found: Sequence[Found], one: Found, scale: float = 1.0) -> list[str]:
    """The value and its ratio to ours; or why there is none."""
    if one.value is None:
        return [one.missing, ""]
    ratio = "1×" if one.library == OURS else multiple(dict(ratios(found, one.job))[one.library])
    return [_digits(scale * one.value), ratio]


def _covered(one: Found, low: float, high: float) -> str:
    if one.value is None:
        return one.missing
    shown = f"{one.value:.4f}"
    return (shown if low <= one.value <= high else f"**{shown}**") + f" ({_digits(one.seen['size'])})"


def _digits(value: float) -> str:
    """Three digits, or whole numbers."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
