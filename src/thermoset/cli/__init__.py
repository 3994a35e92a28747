"""The `thermoset` command: reads arguments, calls the library, prints tables. No mathematics here.

Commands import what they run when they run, so that `thermoset --help` is instant.
"""

import contextlib
import io
import os
import sys
import traceback

import typer

from thermoset._version import __version__
from thermoset.cli.check import check
from thermoset.cli.collect import collect
from thermoset.cli.demo import demo
from thermoset.cli.plan import plan
from thermoset.cli.predict import predict
from thermoset.cli.report import report
from thermoset.cli.study import study
from thermoset.cli.sweep import sweep
from thermoset.cli.theory import theory
from thermoset.cli.tune import tune
from thermoset.errors import InputError, MissingExtraError

__all__ = ["app", "main"]

_INTERRUPTED = 130
_BUG = 70

app = typer.Typer(
    name="thermoset",
    help="Calibrated confidence and conformal prediction sets from logits, each with its own temperature.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (tune, predict, check, report, sweep, theory, study, plan, collect, demo):
    app.command()(command)


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
    """Run the command line; bad input ends in one line on standard error and exit code 2.

    Exit code 1 is left to `check`: whatever else goes wrong, it does not look like a broken promise.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± gets a ?
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where a full disk can still be told
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
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):  # what is left in the buffer must not fail once more, at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"thermoset: the output cannot be written ({error.strerror or error}).\n")
        raise SystemExit(2) from None
    except Exception as bug:
        traceback.print_exc()
        raise SystemExit(_BUG) from bug
