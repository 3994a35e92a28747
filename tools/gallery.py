"""The gallery: every program in examples/gallery, run, with what it prints and draws. A hook of MkDocs (mkdocs.yml).

A program is a module whose docstring has a title in its first line and a text in Markdown below it. It prints a few
lines and writes one picture, into the folder that it runs in, under its own name: confidence.py writes confidence.png.
"""

import ast
import contextlib
import io
import runpy
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
PROGRAMS = tuple(
    ROOT / "examples" / "gallery" / f"{name}.py"
    for name in (
        "confidence",
        "sets",
        "temperatures",
        "hard_classes",
        "groups",
        "abstention",
        "triage",
        "routing",
        "exact_law",
        "cold_softmax",
        "label_shift",
        "monitoring",
    )
)
"""In the order of the page."""
PAGE = "gallery.md"
PLACE = "<!-- the programs -->"


class Entry(NamedTuple):
    """A program that was run."""

    name: str
    title: str
    text: str
    code: str
    printed: str
    picture: bytes

    @property
    def section(self) -> str:
        """Its part of the page."""
        return (
            f"## {self.title}\n\n{self.text}\n\n![{self.title}](images/gallery/{self.name}.png)\n\n"
            f"```text\n{self.printed}```\n\n"
            f'??? example "The program: examples/gallery/{self.name}.py"\n\n'
            + "".join(f"    {line}".rstrip() + "\n" for line in f"```python\n{self.code}\n```".splitlines())
        )


def run(program: Path) -> Entry:
    """Run a program in a folder of its own."""
    source = program.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or "").partition("\n")
    code = "\n".join(source.splitlines()[tree.body[0].end_lineno :]).strip()
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        runpy.run_path(str(program), run_name="__main__")
        picture = Path(folder, f"{program.stem}.png").read_bytes()
    return Entry(program.stem, title.strip().removesuffix("."), text.strip(), code, printed.getvalue(), picture)


_RUN: list[Entry] = []


def on_files(files: "Files", config: Any) -> "Files":
    """Run the programs, and add their pictures to the site."""
    from mkdocs.structure.files import File  # noqa: PLC0415 (a hook of MkDocs)

    _RUN[:] = [run(program) for program in PROGRAMS]
    for entry in _RUN:
        files.append(File.generated(config, f"images/gallery/{entry.name}.png", content=entry.picture))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the programs into their page."""
    if page.file.src_uri != PAGE:
        return markdown
    return markdown.replace(PLACE, "\n".join(entry.section for entry in _RUN))
