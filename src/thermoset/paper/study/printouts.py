"""A table as text: csv, Markdown, LaTeX and HTML from one record."""

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, fields

from thermoset.paper.study.cells import Cell
from thermoset.paper.study.pairs import PairStudy

__all__ = ["PrintedTable", "cells_csv"]

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "*": "$^*$",
    "±": r"$\pm$", "✗": r"$\times$", "†": r"$\dagger$", "‡": r"$\ddagger$", "✓": r"$\surd$",
}  # fmt: skip


@dataclass(frozen=True)
class PrintedTable:
    """A table of text: a name for files, a title, heads and lines of cells; `words` if cells are sentences."""

    name: str
    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    words: bool = False

    def csv(self) -> str:
        """Comma-separated, with the heads first; a name that a spreadsheet would compute begins with an apostrophe.

        >>> print(PrintedTable("t", "Sizes", ("file", "LAC"), (("=1+1", "1.0"),)).csv())
        file,LAC
        '=1+1,1.0
        <BLANKLINE>
        """
        return _csv([[_inert(name) for name in self.head], *self.lines])

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
        head = "".join(f"<th scope='col'>{html.escape(cell)}</th>" for cell in self.head)
        body = "".join(f"<tr>{''.join(map(_td, line))}</tr>" for line in self.lines)
        kind = " class='words'" if self.words else ""
        return (
            f"<div class='scroll' tabindex='0'><table id='{self.name}'{kind}>"
            f"<caption>{html.escape(self.title)}</caption><tr>{head}</tr>{body}</table></div>"
        )


def _td(cell: str) -> str:
    """A cell; the printed number after ours stands back."""
    ours, bracket, printed = html.escape(cell).partition(" [")
    shown = f"{ours}<span class='printed'>{bracket}{printed}</span>" if printed.endswith("]") else html.escape(cell)
    return f"<td{' class=off' if '✗' in cell else ''}>{shown}</td>"


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
