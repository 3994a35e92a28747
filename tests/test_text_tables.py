"""Tables of text: every form holds the same cells, whatever characters they are made of."""

import csv
import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from thermoset.text_tables import TextTable

NAMES = (
    "[x]", "=1+1", "@a", "-a", "a|b", "[a](b)", "<b>bold</b>", "50% of a_b & c~d", "*T* and `code`", "$x^2$ #1 {y}",
    "back\\slash\\", "two\nlines", "&lt;", "a_b_c __d__", "~~old~~", "![i](j)", "1. one",
)  # fmt: skip
NUMBERS = tuple(f"{i}.25 ± 0.10" for i in range(len(NAMES)))
TABLE = TextTable("t", "Sizes of *all* a_b", ("file", "AvgSize_%"), tuple(zip(NAMES, NUMBERS, strict=True)))


class Cells(HTMLParser):
    """Texts of the cells of a table, line by line, and tags that a table does not have."""

    def __init__(self, text):
        super().__init__()
        self.lines, self.others, self._open = [], set(), False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self._open = tag in ("td", "th")
        if tag == "tr":
            self.lines.append([])
        elif self._open:
            self.lines[-1].append("")
        elif tag not in ("table", "thead", "tbody", "p", "strong", "div", "caption", "span"):
            self.others.add(tag)

    def handle_endtag(self, tag):
        self._open = self._open and tag not in ("td", "th")

    def handle_data(self, data):
        if self._open:
            self.lines[-1][-1] += data


def one_line(text):
    return text.replace("\n", " ")


def wanted():
    return [list(TABLE.head), *([one_line(name), number] for name, number in TABLE.lines)]


def test_markdown_comes_back_through_a_renderer():
    reader = MarkdownIt("commonmark").enable("table")  # the one that rich brings
    read = Cells(reader.render(TABLE.to_markdown()))
    assert read.lines == wanted()
    assert read.others == set()


def test_html_comes_back_through_a_parser():
    read = Cells(TABLE.to_html())
    assert [[one_line(cell) for cell in line] for line in read.lines] == wanted()
    assert read.others == set()


def test_csv_comes_back_and_no_cell_is_a_formula():
    read = list(csv.reader(TABLE.to_csv().splitlines(keepends=True)))
    assert [line[0].removeprefix("'") for line in read] == ["file", *NAMES]
    assert not any(line[0][:1] in "=+-@" for line in read)
    assert [line[1] for line in read] == ["AvgSize_%", *NUMBERS]


PLAIN = {
    r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"\textbar{}": "|",
    "$<$": "<", "$>$": ">", "$^*$": "*", r"$\pm$": "±", r"$\alpha$": "alpha", "$T^*$": "T*", r"$\hat{T}$": "T-hat",
    **{f"\\{sign}": sign for sign in "{}$&#%_"},
}  # fmt: skip
TOKENS = re.compile("|".join(re.escape(command) for command in PLAIN))


def test_latex_has_the_columns_it_declares_and_nothing_unescaped():
    lines = TABLE.to_latex().splitlines()
    rows = [line for line in lines if line.endswith(r" \\")]
    assert len(rows) == len(TABLE.lines) + 1
    assert r"\begin{tabular}{lr}" in lines
    for row, (name, number) in zip(rows, wanted(), strict=True):
        assert not row.startswith("["), "an optional argument of the row above"
        cells = re.split(r"(?<!\\) & ", row.removesuffix(r" \\").removeprefix("{}"))
        assert len(cells) == 2, row
        assert not re.search(r"[\\{}$&#%_~^<>*|]", TOKENS.sub("", "".join(cells))), row
        assert [TOKENS.sub(lambda found: PLAIN[found[0]], cell) for cell in cells] == [name, number]


@pytest.mark.parametrize(
    ("cells", "right"),
    [
        (("1.5", "-2", "3e-4", ""), True),
        (("1,234", "50.0%", "0.90 (0.85 to 0.95)"), True),
        (("5.15 ± 0.06 [5.31 ‡]", "1"), True),
        (("1.5", "T = 1"), False),
        (("", ""), False),
    ],
)
def test_columns_of_numbers_are_on_the_right(cells, right):
    table = TextTable("t", "Sizes", ("x",), tuple((cell,) for cell in cells))
    assert table.to_markdown().splitlines()[3] == ("|---:|" if right else "|---|")
    assert (r"\begin{tabular}{r}" in table.to_latex()) is right


def test_a_table_without_lines_has_its_heads():
    table = TextTable("t", "Nothing", ("a", "b"), ())
    assert table.to_markdown().splitlines()[2:] == ["| a | b |", "|---|---|"]
    assert str(table).splitlines() == ["Nothing", "a  b"]


def test_a_narrow_terminal_leaves_out_the_last_columns():
    table = TextTable("t", "Sizes", ("file", "LAC", "APS"), (("glyphs", "1.0", "12.5"),))
    assert table.to_text(18) == str(table) == "Sizes\nfile    LAC   APS\nglyphs  1.0  12.5"
    assert table.to_text(16) == "Sizes\nfile    LAC\nglyphs  1.0"
    assert table.to_text(1).splitlines() == ["Sizes", "file", "glyphs"]


def test_latex_writes_temperatures_and_levels_as_symbols():
    table = TextTable("t", "alpha = 0.1", ("sets at", "alphabet"), (("T-hat", "T* and T_c"),)).to_latex()
    assert r"\caption{$\alpha$ = 0.1}" in table
    assert r"sets at & alphabet \\" in table
    assert r"$\hat{T}$ & $T^*$ and $T_c$ \\" in table
