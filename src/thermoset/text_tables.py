"""A table of text, and the forms it is printed in: plain text, csv, Markdown, LaTeX and HTML from one record."""

import csv
import html
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "*": "$^*$", "|": r"\textbar{}",
    "±": r"$\pm$", "✗": r"$\times$", "†": r"$\dagger$", "‡": r"$\ddagger$", "✓": r"$\surd$", "∞": r"$\infty$",
    "≤": r"$\le$", "≥": r"$\ge$", "×": r"$\times$", "−": "$-$", "α": r"$\alpha$", "–": "--",
}  # fmt: skip
_MARKDOWN = {
    **{sign: f"\\{sign}" for sign in "\\`*_{}[]|"},
    # backslashes before these are not understood everywhere
    "<": "&lt;", ">": "&gt;", "&": "&amp;", "~": "&#126;", "$": "&#36;",
}  # fmt: skip
_SYMBOLS = {"T-hat": r"$\hat{T}$", "T*": "$T^*$", "T_c": "$T_c$", "alpha": r"$\alpha$"}
_SYMBOL = re.compile(r"(?<![\w-])(T-hat|T\*|T_c|alpha)(?![\w-])")
_NUMBER = re.compile(r"[-+<]?\s?[\d.,]+(e[-+]?\d+)?%?( ± [\d.,]+%?)?( [(\[].*[)\]])?")


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    Attributes
    ----------
    name : str
        For files.
    title : str
        For readers.
    head : tuple of str
    lines : tuple of tuples of str
        Cells as readers see them.
    words : bool
        Whether cells are sentences.
    """

    name: str
    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    words: bool = False

    def to_csv(self) -> str:
        """Comma-separated, with the heads first; a name that a spreadsheet would compute begins with an apostrophe.

        >>> print(TextTable("t", "Sizes", ("file", "LAC"), (("=1+1", "1.0"),)).to_csv())
        file,LAC
        '=1+1,1.0
        <BLANKLINE>
        """
        return csv_text([list(map(inert, self.head)), *([inert(name), *cells] for name, *cells in self.lines)])

    def to_markdown(self) -> str:
        r"""A pipe table under its title; columns of numbers are on the right.

        >>> print(TextTable("t", "Sizes", ("file", "LAC"), (("a_b", "1.0"),)).to_markdown())
        **Sizes**
        <BLANKLINE>
        | file | LAC |
        |---|---:|
        | a\_b | 1.0 |
        <BLANKLINE>
        """
        rule = "|" + "".join("---:|" if right else "---|" for right in self._numeric())
        rows = [f"| {' | '.join(map(_md, line))} |" for line in (self.head, *self.lines)]
        return "\n".join([f"**{_md(self.title)}**", "", rows[0], rule, *rows[1:], ""])

    def to_latex(self) -> str:
        r"""A `tabular` in a `table`, ruled by the package booktabs; columns of numbers are on the right.

        >>> print(TextTable("t", "Sizes at alpha = 0.1", ("file", "LAC"), (("a_b", "1.0 ± 0.1"),)).to_latex())
        \begin{table}
        \centering
        \caption{Sizes at $\alpha$ = 0.1}
        \begin{tabular}{lr}
        \toprule
        file & LAC \\
        \midrule
        a\_b & 1.0 $\pm$ 0.1 \\
        \bottomrule
        \end{tabular}
        \end{table}
        <BLANKLINE>
        """
        rows = [" & ".join(map(_tex, line)) + r" \\" for line in (self.head, *self.lines)]
        rows = [f"{{}}{row}" if row.startswith("[") else row for row in rows]  # or it is an argument of the row above
        columns = "".join("r" if right else "l" for right in self._numeric())
        return "\n".join(
            [
                r"\begin{table}", r"\centering", rf"\caption{{{_tex(self.title)}}}", rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
            ]
        )  # fmt: skip

    def to_html(self) -> str:
        """A `table` with a caption, in a region that scrolls sideways; cells with ✗ are marked for the page's style."""
        head = "".join(f"<th scope='col'>{html.escape(cell)}</th>" for cell in self.head)
        body = "".join(f"<tr>{''.join(map(_td, line))}</tr>" for line in self.lines)
        kind, title = " class='words'" if self.words else "", html.escape(self.title, quote=True)
        return (
            f"<div class='scroll' tabindex='0' role='region' aria-label='{title}'>"
            f"<table id='{html.escape(self.name, quote=True)}'{kind}>"
            f"<caption><span>{title}</span></caption><tr>{head}</tr>{body}</table></div>"
        )

    def to_text(self, width: int | None = None) -> str:
        """The table in columns, for a terminal; in a narrow one the last columns are left out, rather than cut.

        >>> print(TextTable("t", "Sizes", ("file", "LAC"), (("glyphs", "1.0"), ("a", "12.5"))).to_text())
        Sizes
        file     LAC
        glyphs   1.0
        a       12.5
        """
        rows, right = [self.head, *self.lines], self._numeric()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        kept = len(widths)
        while width is not None and kept > 1 and sum(widths[:kept]) + 2 * (kept - 1) > width:
            kept -= 1
        texts = [
            "  ".join(
                cell.rjust(w) if r else cell.ljust(w)
                for cell, w, r in zip(row[:kept], widths[:kept], right[:kept], strict=True)
            )
            for row in rows
        ]
        return "\n".join([self.title, *(text.rstrip() for text in texts)])

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.to_html()

    def _numeric(self) -> list[bool]:
        """Which columns hold numbers alone."""
        columns = list(zip(*self.lines, strict=True)) if self.lines else [()] * len(self.head)
        return [
            any(column) and all(cell in ("", "-") or _NUMBER.fullmatch(cell) for cell in column) for column in columns
        ]


class AsTable:
    """What prints itself as a table: `to_table` makes it."""

    __slots__ = ()

    def to_table(self) -> TextTable:
        """The table, with numbers as readers see them."""
        raise NotImplementedError

    def to_markdown(self) -> str:
        """The table for a README or an issue."""
        return self.to_table().to_markdown()

    def to_latex(self) -> str:
        """The table for a paper."""
        return self.to_table().to_latex()


def number(value: float | None, spec: str = ".3f") -> str:
    """A number of a cell; a dash where there is none."""
    return "-" if value is None or math.isnan(value) else format(value, spec)


def plus_minus(value: float | None, reach: float | None, spec: str = ".3f") -> str:
    """A number with what is added and subtracted for its interval."""
    text = number(value, spec)
    return text if reach is None or math.isnan(reach) or text == "-" else f"{text} ± {reach:{spec}}"


def interval(value: float | None, ends: tuple[float, float] | None, spec: str = ".3f") -> str:
    """A number with the ends of its interval."""
    text = number(value, spec)
    return text if ends is None or text == "-" else f"{text} ({ends[0]:{spec}} to {ends[1]:{spec}})"


def html_paragraphs(*texts: str) -> str:
    """Texts, escaped, each in a paragraph."""
    return "".join(f"<p>{html.escape(text)}</p>" for text in texts)


def csv_text(lines: Iterable[Sequence[object]], end: str = "\n") -> str:
    """Lines of cells, separated by commas."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows(lines)
    return text.getvalue()


def inert(name: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def _td(cell: str) -> str:
    """A cell; the printed number after ours stands back."""
    ours, bracket, printed = html.escape(cell).partition(" [")
    shown = f"{ours}<span class='printed'>{bracket}{printed}</span>" if printed.endswith("]") else html.escape(cell)
    return f"<td{' class=off' if '✗' in cell else ''}>{shown}</td>"


def _md(cell: str) -> str:
    r"""Text for Markdown, in which names may not end a cell, begin a tag or make a link."""
    return "".join(_MARKDOWN.get(character, character) for character in _one_line(cell))


def _tex(text: str) -> str:
    r"""Text for LaTeX, which the names of files may not break."""
    parts = _SYMBOL.split(_one_line(text))  # every other part is a symbol
    return "".join(_SYMBOLS.get(part, "".join(_LATEX.get(sign, sign) for sign in part)) for part in parts)


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))
