"""What notebooks show of an object: a small table and a small plot, as HTML that needs nothing else."""

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["html_curves", "html_table"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
_DASHES = ("", "7 3", "2 3", "8 3 2 3", "1 4", "4 4")
_WIDTH, _HEIGHT, _PAD = 320, 150, 34


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text, escaped.

    >>> html_table(["T"], [["<1>"]])
    '<table><thead><tr><th>T</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_curves(
    title: str, x: Sequence[float], curves: Mapping[str, Sequence[float]], marks: Mapping[str, float]
) -> str:
    """Curves over x as SVG: a legend below, dotted lines at the marks; values that are not finite are left out.

    >>> "<svg" in html_curves("AvgSize", [1.0, 2.0], {"raps": [3.0, 4.0]}, {"T*": 1.5})
    True
    """
    values = [v for curve in curves.values() for v in curve if math.isfinite(v)] or [0.0]
    low, high = min(values), max(values)
    span, reach = (high - low) or 1.0, (x[-1] - x[0]) or 1.0

    def place(t: float, v: float) -> tuple[float, float]:
        across, up = (t - x[0]) / reach, (v - low) / span
        return _PAD + across * (_WIDTH - 1.2 * _PAD), _HEIGHT - 20 - up * (_HEIGHT - 44)

    parts = [
        _text(_PAD, 12, title),
        _text(2, place(x[0], low)[1], f"{low:.3g}"),
        _text(2, place(x[0], high)[1], f"{high:.3g}"),
    ]
    parts += [_text(place(t, low)[0] - 6, _HEIGHT - 4, f"{t:g}") for t in (x[0], x[-1])]
    for name, t in marks.items():
        if x[0] <= t <= x[-1]:
            at = place(t, low)[0]
            line = (
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="24" y2="{_HEIGHT - 20}" stroke="#888" stroke-dasharray="2 3"/>'
            )
            parts += [line, _text(at + 2, 24, name)]
    for i, curve in enumerate(curves.values()):
        points = [place(t, v) for t, v in zip(x, curve, strict=True) if math.isfinite(v)]
        drawn = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        look = f'stroke="{_COLOURS[i % 6]}" stroke-dasharray="{_DASHES[i % 6]}"'
        parts.append(f'<polyline points="{drawn}" fill="none" stroke-width="2" {look}/>')
    legend = " ".join(
        f'<span style="color:{_COLOURS[i % 6]}">&#9632;</span> {escape(name)}' for i, name in enumerate(curves)
    )
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    label = escape(f"{title} against temperature")
    return (
        f'<div style="display:inline-block;margin-right:1em"><svg {size} role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg><br><small>{legend}</small></div>"
    )


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="currentColor">{escape(text)}</text>'
