"""`index.html` of a study: one page that can be sent, with every figure beside the tables it belongs to."""

import base64
import html
from collections.abc import Iterator, Mapping, Sequence

from thermoset.paper.study.figures import captions
from thermoset.paper.study.pairs import PairStudy
from thermoset.paper.study.tables import KEY, Section

__all__ = ["study_page"]

_TITLE = "Temperature scaling and conformal prediction"
_NARROW = ("reliability", "differences", "margins", "last-index", "bound")  # two of them fit beside each other
_STYLE = """
:root { color-scheme: light dark; --paper: #fbfaf8; --card: #fff; --ink: #1d2329; --dim: #5a646e; --line: #dcdfe3;
  --band: #f5f6f7; --off: #b3380018; --link: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --paper: #12161b; --card: #1a2027; --ink: #e8ebee; --dim: #a3adb8;
  --line: #313a44; --band: #1f262e; --off: #ff8a5030; --link: #56b4e9; } }
* { box-sizing: border-box; } html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; background: var(--paper); color: var(--ink); }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
.page { display: grid; grid-template-columns: 15.5rem minmax(0, 1fr); gap: 2.2rem; max-width: 1560px; margin: 0 auto;
  padding: 1.6rem; }
nav { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto; padding: .4rem 0;
  font-size: 13.5px; }
nav ol { list-style: none; margin: 0; padding: 0; } nav > ol > li { margin-bottom: .4rem; font-weight: 600; }
nav ol ol { font-weight: 400; font-size: 12.5px; margin: .2rem 0 .5rem .3rem; padding-left: .8rem;
  border-left: 2px solid var(--line); }
nav summary { cursor: pointer; padding-left: 1rem; text-indent: -1rem; } nav .plain { padding-left: 1rem; }
nav li { overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; } h2 { margin: 0 0 .3rem; font-size: 1.3rem; }
h3 { margin: 1.4rem 0 .3rem; font-size: 1rem; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1.2rem 1.4rem;
  margin-top: 1.4rem; }
.dim, figcaption { color: var(--dim); font-size: 13.5px; } p { max-width: 78ch; margin: .3rem 0; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 12.5px; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; font-size: 13.5px; }
td, th { border-bottom: 1px solid var(--line); padding: .25rem .55rem; text-align: left; vertical-align: top;
  white-space: nowrap; }
th { color: var(--dim); font-weight: 600; vertical-align: bottom; white-space: normal; }
td { font-variant-numeric: tabular-nums; } tr:nth-child(even) td { background: var(--band); }
tr td.off { background: var(--off); } .printed { color: var(--dim); }
table.words td { white-space: normal; min-width: 5.5rem; } table.words td:first-child { min-width: 11rem; }
table.words td:nth-last-child(2) { min-width: 9rem; }
main summary { cursor: pointer; color: var(--link); margin-top: .8rem; }
.figures { display: grid; gap: 1rem 1.4rem; grid-template-columns: minmax(0, 1fr); }
.figures.narrow { grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 0; min-width: 0; } img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
@media (max-width: 60rem) { .page { display: block; padding: 1rem; } nav { position: static; max-height: none; }
  section { padding: .9rem; } }
@media print { .page { display: block; } nav { position: static; } section { break-inside: auto; border: 0; } }
"""


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
    yield f"<title>{_TITLE}: the study</title><style>{_STYLE}</style><body><div class='page'>"
    yield from _contents(studies, sections)
    yield f"<main><h1>{_TITLE}: the study</h1>"
    levels = " and ".join(f"{alpha:g}" for alpha in settings.alphas)
    sizes = ", ".join(f"{cp}%" for cp in settings.cp_percents)
    yield f"<p>{settings.trials} random splits, seed {settings.random_state}; alpha {levels}; CP sets of {sizes}; "
    yield f"temperatures {html.escape(settings.temperatures)}.</p><p class='dim'>{html.escape(KEY)}</p>"
    for name, reason in skipped.items():
        yield f"<p>Not studied: {html.escape(name)} ({html.escape(reason)})</p>"
    for section in sections:
        yield from _section(section, studies, figures)
    yield "</main></div></body></html>\n"


def _contents(studies: Sequence[PairStudy], sections: Sequence[Section]) -> Iterator[str]:
    """A table of contents: sections, and under each its tables and the files it has figures of."""
    yield "<nav aria-label='Contents'><ol>"
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
    if section.figures:
        told = captions(studies[0].settings)
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
    return first if len(section.folded) == 1 else f"{len(section.folded)} more tables: other sizes of the CP set"


def _figure(content: bytes, caption: str) -> str:
    shown, encoded = html.escape(caption, quote=True), base64.b64encode(content).decode()
    return f"<figure><img alt='{shown}' src='data:image/png;base64,{encoded}'><figcaption>{shown}</figcaption></figure>"
