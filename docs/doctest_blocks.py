"""Griffe extension: examples in docstrings that stand outside an Examples section become code blocks.

In Markdown a line that begins with >>> is a quotation in a quotation in a quotation, and after a section of the
docstring (Parameters, Raises, ...) it would be read as one more entry of that section.
"""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^|(?<=\n\n))>>> .*?(?=\n\n|\Z)", re.DOTALL)
SECTION = re.compile(r"^\w+\n---+$", re.MULTILINE)


def with_examples_as_code(text: str) -> str:
    """Fence the examples before the first section, and head those after the last one."""
    first = SECTION.search(text)
    prose, sections = (text, "") if first is None else (text[: first.start()], text[first.start() :])
    if "Examples\n---" not in sections:
        sections = EXAMPLE.sub(lambda found: f"Examples\n--------\n{found.group()}", sections, count=1)
    return EXAMPLE.sub(lambda found: f"```pycon\n{found.group()}\n```", prose) + sections


class DoctestBlocks(griffe.Extension):
    """Rewrite every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Look at one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = with_examples_as_code(obj.docstring.value)
