"""The `thermoset` command: reads arguments, calls the library, prints tables. No mathematics here.

Commands import what they run when they run, so that `thermoset --help` is instant.
"""

import contextlib
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import TextIO

import typer

from thermoset._version import __version__
from thermoset.cli.adapt import adapt
from thermoset.cli.exports import answer, export
from thermoset.cli.options import with_records
from thermoset.cli.output import tell
from thermoset.cli.predict import predict
from thermoset.cli.promises import check, monitor
from thermoset.cli.research import study, sweep
from thermoset.cli.tune import demo, report, tune
from thermoset.errors import InputError, MissingExtraError

__all__ = ["app", "main"]

_NAME = "thermoset"
_BAD_INPUT = 2
_BUG = 70
_INTERRUPTED = 130
_TIDY_SIGNALS = ("SIGTERM", "SIGHUP")  # that end a process at once, unless they are handled
# UsageError of click, or of the copy of it that newer typers have: only its child has a public name.
_Misuse: type[Exception] = typer.BadParameter.mro()[1]

_EXAMPLE = """Example, with arrays 'logits' and 'labels' in the files:

  thermoset tune val.npz --out model

  thermoset predict model/predictor.json new.npz --out sets.csv

  thermoset check model/predictor.json fresh.npz"""

app = typer.Typer(
    name=_NAME,
    help="Calibrated confidence and conformal prediction sets from logits, each with its own temperature.",
    epilog=_EXAMPLE,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_GROUPS = {
    "The main job": (tune, predict, check),
    "Over time": (monitor, adapt),
    "Elsewhere": (export, report, answer),
    "Curves, the paper, and a first look": (sweep, study, demo),
}
for panel, commands in _GROUPS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(with_records(command))


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"thermoset {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    _: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Hold the options that stand before a command."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help())
        raise typer.Exit(_BAD_INPUT)


class _AskedToEnd(SystemExit):
    """A signal has asked the process to end."""


def main() -> None:
    """Run the command line; bad input ends in one line on standard error and exit code 2.

    Exit code 1 is left to `check` and `monitor`: whatever else goes wrong, and whoever has stopped listening, it does
    not look like a broken promise.
    """
    _prepare_streams()
    try:
        with _ending_tidily():
            code = _run()
    finally:
        _settle(sys.stdout)
        _settle(sys.stderr)
    raise SystemExit(code)


def _run() -> int:
    """Run the command and tell what went wrong; the exit code."""
    try:
        code: int | None = app(prog_name=_NAME, standalone_mode=False)  # so that it is we who tell of errors
        sys.stdout.flush()  # here, where a full disk can still be reported
    except (InputError, MissingExtraError) as error:
        return _refuse(error)
    except _Misuse as error:
        return _refuse(_in_short(error))
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except _AskedToEnd:
        tell("terminated")
        raise
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # typer and rich end with code 1 when a reader has left
            return _unwritten(ended.__context__)
        raise
    except OSError as error:
        return _unwritten(error)
    except Exception:  # noqa: BLE001 (a bug, whatever it is)
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()
        return _BUG
    if code == _INTERRUPTED:  # typer turns Ctrl-C into this code, without a word
        tell("interrupted")
    return code or 0


def _refuse(reason: object) -> int:
    tell(reason)
    return _BAD_INPUT


def _unwritten(error: OSError) -> int:
    return _refuse(f"the output cannot be written ({error.strerror or error}).")


def _in_short(misuse: Exception) -> str:
    """What typer says about wrong arguments, in one line, and where to read more."""
    said = " ".join(misuse.format_message().split())  # type: ignore[attr-defined]
    end = "" if said.endswith((".", "?")) else "."
    context: typer.Context | None = misuse.ctx  # type: ignore[attr-defined]
    return f"{said}{end} See: {_NAME if context is None else context.command_path} --help"


def _prepare_streams() -> None:
    """Standard streams that are open, and that can print anything."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: the next file that is opened would get its number, and be printed into
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± gets a ?


def _settle(stream: TextIO) -> None:
    """Write what is left, or drop it: at the end of the process a failure would change the exit code."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), stream.fileno())


@contextlib.contextmanager
def _ending_tidily() -> Iterator[None]:
    """Let signals that ask a process to end do it as Ctrl-C does: hidden files are removed on the way out."""

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # `timeout` asks twice, and the second must not disturb the tidying
        raise _AskedToEnd(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    known = [getattr(signal, name) for name in _TIDY_SIGNALS if hasattr(signal, name)]
    ours = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]  # not what nohup ignores
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
