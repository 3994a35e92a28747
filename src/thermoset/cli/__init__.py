"""The `thermoset` command: reads arguments, calls the library, prints tables. No mathematics here.

Commands import what they run when they run, so that `thermoset --help` is instant.
"""

import sys

import typer

from thermoset._version import __version__
from thermoset.cli.demo import demo
from thermoset.cli.plan import plan
from thermoset.cli.sweep import sweep
from thermoset.cli.theory import theory
from thermoset.errors import InputError, MissingExtraError

__all__ = ["app", "main"]

_INTERRUPTED = 130

app = typer.Typer(
    name="thermoset",
    help="Calibrated confidence and conformal prediction sets from logits, each with its own temperature.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(plan)
app.command()(sweep)
app.command()(theory)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"thermoset {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Hold the options that stand before a command."""


def main() -> None:
    """Run the command line; bad input ends in one line on standard error and exit code 2."""
    try:
        app()
    except (InputError, MissingExtraError) as error:
        sys.stderr.write(f"thermoset: {error}\n")
        raise SystemExit(2) from None
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:  # typer turns Ctrl-C into this code, without a word
            sys.stderr.write("thermoset: interrupted\n")
        raise
    except KeyboardInterrupt:
        sys.stderr.write("thermoset: interrupted\n")
        raise SystemExit(_INTERRUPTED) from None
