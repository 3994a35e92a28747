"""Pages that are written from the package when the site is built. A hook of MkDocs (mkdocs.yml).

- `reference/*.md`: a page for each public package, with the names that it exports, for mkdocstrings. Names are read
  from the sources, so that no extra has to be installed.
- the commands and their options, below what `command-line.md` says by hand.
"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

SOURCE = Path(__file__).parents[1] / "src"
FOLDER = "reference"
COMMANDS_PAGE, COMMANDS_PLACE = "command-line.md", "<!-- the commands -->"
INTERNAL = ("thermoset.kernels", "thermoset.rows", "thermoset.arrays", "thermoset.integrations.program")
"""Packages that are importable and not for users."""


@cache
def _tree(module: str, suffix: str = ".py") -> ast.Module | None:
    """The syntax tree of a module, or of the stub that lists a package's names; None if there is none."""
    path = SOURCE.joinpath(*module.split("."))
    for place in (path / f"__init__{suffix}", path.with_suffix(suffix)):
        if place.is_file():
            return ast.parse(place.read_text(encoding="utf-8"))
    return None


def _imported(tree: ast.Module, module: str) -> dict[str, str]:
    """Where the names come from that a module imports from this package, and the submodules that a stub lists."""
    lines = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    lazy = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "submod_attrs"]
    return {
        name: f"{module}.{part}.{name}"
        for some in lazy
        for part, names in ast.literal_eval(some).items()
        for name in names
    } | {
        name.asname or name.name: ".".join(filter(None, (module if line.level else "", line.module, name.name)))
        for line in lines
        if line.level or (line.module or "").startswith("thermoset")
        for name in line.names
    }


@cache
def exported(module: str) -> dict[str, str]:
    """The public names of a module, and the full name of what each stands for."""
    if stub := _tree(module, ".pyi"):
        return {name: _origin(full) for name, full in _imported(stub, module).items() if _tree(full) is None}
    tree = _tree(module)
    if tree is None:
        return {}
    named = [node.value for node in tree.body if isinstance(node, ast.Assign) and "__all__" in ast.unparse(node)]
    if named and isinstance(named[0], ast.List):
        names = ast.literal_eval(named[0])
    else:
        names = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        names = [name for name in names if not name.startswith("_")]
    imported = _imported(tree, module)
    return {name: _origin(imported[name]) if name in imported else f"{module}.{name}" for name in names}


def _origin(full: str) -> str:
    """The full name of what a name stands for, where packages hand it on."""
    module, _, name = full.rpartition(".")
    further = exported(module).get(name, full)
    return full if further == full else _origin(further)


def _submodules(module: str) -> list[str]:
    """Modules that a package loads when they are first used (`attach`)."""
    lists = [
        node.value
        for node in ast.walk(_tree(module) or ast.Module())
        if isinstance(node, ast.keyword) and node.arg == "submodules"
    ]
    return [f"{module}.{name}" for some in lists if isinstance(some, ast.List) for name in ast.literal_eval(some)]


def packages() -> dict[str, list[str]]:
    """The public packages and, of each, the modules whose names are on its page."""
    stub = _tree("thermoset", ".pyi") or ast.Module()
    names = [full for full in _imported(stub, "thermoset").values() if full.count(".") == 1 and _tree(full)]
    parts = {full: [part for part in (full, *_submodules(full)) if exported(part)] for full in names}
    return {
        full: kept
        for full, some in parts.items()
        if (kept := [part for part in some if part not in INTERNAL]) and full not in INTERNAL
    }


def _summary(module: str) -> str:
    return (ast.get_docstring(_tree(module) or ast.Module(body=[])) or "").partition("\n\n")[0].replace("\n", " ")


def reference() -> dict[str, str]:
    """The pages: name and Markdown."""
    top = exported("thermoset")
    pages: dict[str, str] = {}
    placed: dict[str, str] = {}
    for package, parts in packages().items():
        page = f"{FOLDER}/{package.removeprefix('thermoset.')}.md"
        lines = [f"# {package}"]
        for part in parts:
            lines += [f"## {part}"] * (len(parts) > 1) + [_summary(part)]
            names = [full for full in dict.fromkeys(exported(part).values()) if full not in placed]
            placed |= dict.fromkeys(names, page)
            lines += [f"::: {full}\n    options:\n      heading_level: 3" for full in names]
        pages[page] = "\n\n".join(lines) + "\n"
    index = f"{FOLDER}/index.md"
    rest = [full for full in dict.fromkeys(top.values()) if full not in placed]
    placed |= dict.fromkeys(rest, index)
    names = [
        f"- [`ts.{name}`]({Path(placed[full]).name}#{full})" if placed[full] != index else f"- [`ts.{name}`](#{full})"
        for name, full in sorted(top.items(), key=lambda item: item[0].lower())
    ]
    paths = [Path(page) for page in pages]
    submodules = [f"- [`{page.stem}`]({page.name}): {_summary(f'thermoset.{page.stem}')}" for page in paths]
    pages[index] = "\n\n".join(
        [
            "# Python reference",
            "`import thermoset as ts`. Names and packages load when they are first used.",
            "## Names\n\n" + "\n".join(names),
            "## Packages\n\n" + "\n".join(submodules),
            "## Scores and the rest",
            *(f"::: {full}\n    options:\n      heading_level: 3" for full in rest),
        ]
    )
    return pages


def commands() -> str:
    """Every command with its arguments and options."""
    import typer.main  # noqa: PLC0415 (a hook of MkDocs)

    from thermoset.cli import app  # noqa: PLC0415

    known = typer.main.get_command(app).commands
    parts = []
    for name, command in known.items():
        shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
        arguments = [one for one in shown if one.param_type_name == "argument"]
        usage = " ".join(["thermoset", name, *(one.metavar or one.name.upper() for one in arguments), "[OPTIONS]"])
        rows = [_row(one) for one in shown if one.param_type_name == "option"]
        table = ["| option | meaning | default |", "|---|---|---|", *rows]
        parts.append(f"## thermoset {name}\n\n```text\n{usage}\n```\n\n{command.help}\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


def _row(option: Any) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    default = option.default
    plain = default is None or default is False or callable(default) or default == ()
    said = "" if plain else f"`{getattr(default, 'value', default)}`"
    meaning = " ".join((option.help or "").split()).replace("|", "\\|").replace("<", "&lt;")
    return f"| {flags} | {meaning} | {said} |"


def on_config(config: Any) -> Any:
    """Put all pages of the reference where the navigation names its index."""
    pages = sorted(reference())
    entries = [{"thermoset" if page.endswith("/index.md") else Path(page).stem: page} for page in pages]
    entries.sort(key=lambda entry: "thermoset" not in entry)
    for section in config["nav"]:
        for title, inside in section.items():
            if isinstance(inside, list):
                section[title] = [
                    {"Python": entries} if entry == {"Python": f"{FOLDER}/index.md"} else entry for entry in inside
                ]
    return config


def on_files(files: "Files", config: Any) -> "Files":
    """Add the pages of the reference to the site."""
    from mkdocs.structure.files import File  # noqa: PLC0415 (a hook of MkDocs)

    for name, text in reference().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the commands below the page's own text; of links to sources, which the site has not, leave the text."""
    markdown = re.sub(r"\[([^]]+)\]\(\.\./src/[^)]+\)", r"\1", markdown)
    return markdown.replace(COMMANDS_PLACE, commands()) if page.file.src_uri == COMMANDS_PAGE else markdown
