"""`index.html` of a study: one page that can be sent, with every figure beside the tables it belongs to."""

import base64
import html
from collections.abc import Iterator, Mapping, Sequence

from thermoset.paper.study.figures import captions
from thermoset.paper.study.pairs import PairStudy
from thermoset.paper.study.tables import KEY, Section
from thermoset.report.glossary import GLOSSARY_BUTTON, glossary_html
from thermoset.report.shell import page_file
from thermoset.report.words import study_words

__all__ = ["study_page"]

_TITLE = "Temperature scaling and conformal prediction"
_LOOKS = (
    "In every figure LAC is blue with circles, APS orange with squares, RAPS green with triangles. Where curves "
    "coincide, their marks alternate."
)
_NARROW = (
    "reliability",
    "differences",
    "margins",
    "last-index",
    "bound",
    "bound-share",
)  # two of them fit beside each other


def study_page(
    studies: Sequence[PairStudy],
    sections: Sequence[Section],
    figures: Mapping[str, bytes],
    skipped: Mapping[str, str],
) -> str:
    """The page; `figures` holds the PNG files by path within the folder."""
    return "".join(_page(studies, sections, figures, skipped))


def _page(
    studies: Sequence[PairStudy],
    sections: Sequence[Section],
    figures: Mapping[str, bytes],
    skipped: Mapping[str, str],
) -> Iterator[str]:
    settings = studies[0].settings
    yield "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    style = page_file("study.css") + page_file("shared.css")
    yield f"<title>{_TITLE}: the study</title><style>{style}</style><body><div class='page'>"
    yield from _contents(studies, sections)
    yield f"<main><h1>{_TITLE}: the study</h1>"
    levels = " and ".join(f"{alpha:g}" for alpha in settings.alphas)
    sizes = ", ".join(f"{cp}%" for cp in settings.cp_percents)
    yield f"<p>{settings.trials} random splits, seed {settings.random_state}; alpha {levels}; CP sets of {sizes}; "
    yield f"temperatures {html.escape(settings.temperatures)}.</p>"
    yield f"<p class='dim'>{html.escape(KEY)}</p><p class='dim'>{html.escape(_LOOKS)}</p>"
    for remark in filter(None, (study.remark for study in studies)):
        yield f"<p>{html.escape(remark)}</p>"
    for name, reason in skipped.items():
        yield f"<p>Skipped {html.escape(name)}: {html.escape(reason)}</p>"
    for section in sections:
        yield from _section(section, studies, figures)
    yield f"</main></div>{glossary_html(study_words())}<script>{page_file('scrolling.js')}</script></body></html>\n"


def _contents(studies: Sequence[PairStudy], sections: Sequence[Section]) -> Iterator[str]:
    """A table of contents: sections, and under each its tables and the files it has figures of."""
    yield f"<nav aria-label='Contents'>{GLOSSARY_BUTTON}<ol>"
    for section in sections:
        within = len(section.tables) + len(section.figures) * len(studies)
        link = f"<a href='#part-{section.name}'>{html.escape(section.title)}</a>"
        if within < 2:
            yield f"<li class='plain'>{link}</li>"
            continue
        yield f"<li><details><summary>{link}</summary><ol>"
        for table in section.tables:
            yield f"<li><a href='#{table.name}'>{html.escape(table.title)}</a></li>"
        if section.figures:
            for i, study in enumerate(studies):
                yield f"<li><a href='#part-{section.name}-{i}'>Figures: {html.escape(study.title)}</a></li>"
        yield "</ol></details></li>"
    yield "</ol></nav>"


def _section(section: Section, studies: Sequence[PairStudy], figures: Mapping[str, bytes]) -> Iterator[str]:
    yield f"<section id='part-{section.name}'><h2>{html.escape(section.title)}</h2>"
    if section.about:
        yield f"<p class='dim'>{html.escape(section.about)}</p>"
    for table in section.tables:
        yield table.to_html()
    if section.folded:
        yield f"<details><summary>{html.escape(_folded(section))}</summary>"
        for table in section.folded:
            yield table.to_html()
        yield "</details>"
    told = captions(studies[0].settings)
    for name in section.shared:
        yield _figure(figures[f"{name}.png"], told[name])
    if section.figures:
        narrow = all(name in _NARROW for name in section.figures)
        by_file = len(section.figures) == 1 and narrow  # small figures of all files share a row
        yield f"<div class='figures{' narrow' if by_file else ''}'>"
        for i, study in enumerate(studies):
            yield f"<div id='part-{section.name}-{i}'><h3>{html.escape(study.title)}</h3>"
            yield f"<div class='figures{' narrow' if narrow and not by_file else ''}'>"
            for name in section.figures:
                yield _figure(figures[f"figures/{study.name}/{name}.png"], told[name])
            yield "</div></div>"
        yield "</div>"
    yield "</section>"


def _folded(section: Section) -> str:
    """What unfolding shows."""
    first = section.folded[0].title
    return first if len(section.folded) == 1 else f"{len(section.folded)} more tables for other sizes of the CP set"


def _figure(content: bytes, caption: str) -> str:
    shown, encoded = html.escape(caption, quote=True), base64.b64encode(content).decode()
    return f"<figure><img alt='{shown}' src='data:image/png;base64,{encoded}'><figcaption>{shown}</figcaption></figure>"
