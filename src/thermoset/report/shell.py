"""What every page needs: the environment of the templates, numbers that programs can read, and the files in one.

Pages extend `base.html`, which holds the head, the style, the libraries and the scripts. Every number stands in a
<data> element with its exact value and a key, so that programs can read a page as well.
"""

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from thermoset._version import __version__
from thermoset.arrays import Floats
from thermoset.errors import InputError
from thermoset.io.files import as_path, check_targets, errors_about, need, write_whole
from thermoset.quoting import printable
from thermoset.report.words import GLOSSARY_BUTTON, glossary_html, term_button, with_symbols

_PURPOSE = "an HTML report"


def fill_template(template: str, scripts: tuple[str, ...], words: Mapping[str, str], **values: Any) -> str:
    """A page as HTML: self-contained, it asks for nothing over a network.

    `scripts` are those of this page alone; `charts` among the values are drawn by the one that all pages share. `words`
    are the terms that the glossary explains.
    """
    terms = list(words)
    page: str = (
        _environment()
        .get_template(template)
        .render(
            version=__version__,
            style=page_file("shared.css") + page_file("style.css"),
            library=_library(),
            scripts=[page_file(name) for name in ("script.js", "scrolling.js", *scripts)],
            glossary=markup(glossary_html(words)),
            glossary_button=markup(GLOSSARY_BUTTON),
            term=lambda name, text=None: markup(term_button(terms, name, text)),
            **values,
        )
    )
    return page


def write_html(path: str | os.PathLike[str], what: str, render: Callable[[], str]) -> None:
    """Write a page to a file, whole or not at all; the name is checked before the page is made."""
    target = as_path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{target}: {what} is an HTML page; name a file that ends in .html.")
    check_targets([target], ())
    content = render().encode()
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(content)


_LONGEST = 60  # letters of a name


def shorten(text: str, mark: str) -> str:
    """Text of at most 60 characters; a longer one is cut, and `mark` keeps it apart from others that begin alike."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - len(mark) - 4].rstrip()}… ({mark})"


def number(key: str, value: float | None, spec: str = ".3f") -> Any:
    """A number to read, with its exact value and name to be checked by."""
    if value is None or math.isnan(value):
        return markup("<data value='' data-key='{}'>–</data>").format(key)
    text = ("∞" if value > 0 else "-∞") if math.isinf(value) else format(value, spec)
    return markup("<data value='{}' data-key='{}'>{}</data>").format(str(value), key, text)


def symbols(text: str) -> Any:
    """A sentence of the library with the symbols that plain text lacks."""
    plain = ". ".join(sentence for sentence in printable(text).split(". ") if "`" not in sentence)  # no names of code
    return signs(plain if plain.endswith(".") else plain + ".")


def signs(text: str) -> Any:
    """Names of temperatures as pages write them."""
    return markup(with_symbols(text))


def with_code(text: str) -> Any:
    """Sentences of the library in which what stands between backticks is to be typed."""
    parts = printable(text).split("`")
    return markup("").join(
        markup("<code>{}</code>").format(part) if i % 2 else signs(part) for i, part in enumerate(parts)
    )


def bar_start(lows: Floats) -> float:
    """Where the bars of a table begin: a tenth below all intervals."""
    return math.floor(10 * float(np.nanmin(lows))) / 10


def along(start: float, share: float) -> str:
    """Place of a share on a bar from `start` to 1, as CSS."""
    return f"{100 * (share - start) / (1 - start):.1f}%"


def markup(text: str) -> Any:
    """Text that is HTML already."""
    return need("markupsafe", "report", _PURPOSE).Markup(text)


@cache
def _environment() -> Any:
    """Kept, so that templates are compiled once."""
    jinja2 = need("jinja2", "report", _PURPOSE)
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(page_file),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals |= {"num": number}
    environment.filters |= {"symbols": symbols, "signs": signs, "with_code": with_code}
    return environment


@cache
def page_file(name: str) -> str:
    """A template, a style sheet or a script of the package."""
    return files("thermoset.report").joinpath(f"files/{name}").read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed; nothing in them may close the script they stand in.

    To put them together takes seconds, so they are kept in the user's cache folder, by version.
    """
    maker = need("vl_convert", "report", _PURPOSE)
    kept = None
    with suppress(OSError, RuntimeError):  # a user without a home has no such folder
        base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
        kept = Path(base) / "thermoset" / f"vega-{maker.__version__}.js"
        return kept.read_text(encoding="utf-8")
    bundle: str = maker.javascript_bundle().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    if kept is not None:
        with suppress(OSError, InputError):  # a page does without
            kept.parent.mkdir(parents=True, exist_ok=True)
            with write_whole(kept) as stream:
                stream.write(bundle.encode())
    return bundle
