"""A process that has everything loaded and becomes, by `fork`, as many runs of the command as it is asked for.

It reads one request a line and answers with one line; both are JSON. An attack so costs a run of the command, and not
the seconds that loading it takes. Threads do not survive a fork: there is one here.
"""

import contextlib
import dataclasses
import gc
import importlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

os.environ["THERMOSET_NUM_THREADS"] = "1"

import numpy as np
from matplotlib.figure import Figure

import thermoset as ts
import thermoset.io.files
import thermoset.paper.study
import thermoset.paper.study.page
import thermoset.plots
import thermoset.predictor.many_files
from attacks.written import Files, writing
from law import generated
from thermoset.cli import main
from thermoset.cli.output import PAGE_MODULES


def warmed() -> None:
    """Load what commands load when they run, and stand in for what takes long and writes nothing."""
    data = ts.Logits(*generated(400, 4, signal=0.5))
    predictor = ts.TwoTemperaturePredictor().fit(data)
    fresh = ts.Logits(*generated(200, 4, signal=0.5, seed=1))
    predictor.check(fresh)
    predictor.recalibrate(fresh)
    ts.sweep(data, temperatures=[1.0, 2.0], trials=2)
    few = thermoset.paper.study.Settings(trials=2, cp_percents=(10,), temperatures="0.5,1,2")
    found = thermoset.paper.study.study_logits(data, "val", few)
    thermoset.paper.study.study_logits = lambda _, name, *__, **___: dataclasses.replace(found, name=name)
    drawn = np.random.default_rng(0).bytes(100_000)
    folder, captions = thermoset.paper.study.page, thermoset.paper.study.figures.captions
    names = [f"{name}.{suffix}" for name in captions(few) for suffix in ("png", "pdf")]
    folder.figure_files = lambda study, _: {f"figures/{study.name}/{name}": drawn for name in names}
    Figure.savefig = lambda _, stream, **__: stream.write(drawn)
    sys.modules["thermoset.cli.tune"].page_of = lambda *_, **__: drawn
    for module in ("pyarrow.parquet", *PAGE_MODULES):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    run_once(data, fresh, predictor)


def run_once(data: ts.Logits, fresh: ts.Logits, predictor: ts.TwoTemperaturePredictor) -> None:
    """Every command that writes: its imports and its compiled code are then there in every process that is forked."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        files = Files(place / "val.npz", place / "fresh.npz", place / "predictor.json", place / "in")
        files.folder.mkdir()
        for path in (files.val, files.folder / "val.npz"):
            ts.save(path, data)
        ts.save(files.fresh, fresh)
        predictor.save(files.predictor)
        out = place / "out"
        out.mkdir()
        shards = ("predict", files.predictor, files.folder, "--out", place / "shards", "--format", "csv")
        for arguments in (shards, *writing(files, out).values()):
            sys.argv = ["thermoset", *map(str, arguments)]
            said = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
            with said[0], said[1], contextlib.suppress(SystemExit):
                main()


def dying(at: dict, number: int) -> None:
    """Let the process get a signal around the `file`-th file it writes: before, while, or when it is written."""
    count = -1

    def reached(moment: str) -> None:
        if (moment, count) == (at["moment"], at["file"]):
            os.kill(os.getpid(), number)

    class Stream(io.BufferedWriter):
        def write(self, data) -> int:
            half = memoryview(data).nbytes // 2
            super().write(memoryview(data).cast("B")[:half])
            self.flush()
            reached("writing")
            return half + super().write(memoryview(data).cast("B")[half:])

    def opened(path, mode, opener):
        nonlocal count
        count += 1
        reached("opening")
        return Stream(io.FileIO(path, mode, opener=opener))

    renamed = Path.replace

    def replaced(self, target):
        reached("renaming")
        return renamed(self, target)

    thermoset.io.files.open = opened
    Path.replace = replaced


def redirect(number: int, place: str) -> None:
    """Let a standard stream lead to a file, to a pipe that nobody reads, or nowhere at all."""
    name = ("stdin", "stdout", "stderr")[number]
    if place == "closed":  # as Python finds it when it is started so
        os.close(number)
        setattr(sys, name, None)
        return
    if place == "broken":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(place, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT)
    os.dup2(writer, number)
    mode = "r" if number == 0 else "w"
    opened = open(number, mode, buffering=1 if number == 2 else -1, encoding="utf-8", closefd=False)  # noqa: SIM115
    setattr(sys, name, opened)


def become(asked: dict, places: list[str]) -> None:
    """Be the command, in a process that was just forked."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which is ignored below nohup
    for number, place in enumerate(("/dev/null", *places)):
        redirect(number, place)
    if "most_bytes" in asked:  # of a file: the disk is full, as far as this process can see
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["most_bytes"],) * 2)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30,) * 2)  # a file without an end is no harm to others
    if "signal" in asked:
        dying(asked["at"], asked["signal"])
    sys.argv = ["thermoset", *asked["arguments"]]
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    for stream in (
        sys.stdout,
        sys.stderr,
    ):  # the end of the interpreter in short: its full end takes longer than most runs
        try:
            stream.flush()
        except OSError:
            code = 120
    os._exit(code)


def kill(child: int, once: str, after: float) -> None:
    """Kill a run some seconds after a file has appeared, whatever it is doing then."""
    ended = os.WEXITED | os.WNOHANG | os.WNOWAIT  # and one that has ended is not gone before it is waited for
    while not Path(once).exists() and os.waitid(os.P_PID, child, ended) is None:
        time.sleep(0.0005)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)


def serve() -> None:
    for line in sys.stdin:
        running = []
        for asked in json.loads(line):
            kept = [tempfile.mktemp() for _ in range(2)]  # noqa: S306 (of our own)
            places = [asked.get("stdout") or kept[0], asked.get("stderr") or kept[1]]
            child = os.fork()
            if child == 0:
                become(asked, places)
            running.append((child, kept))
            if "kill_after" in asked:
                kill(child, asked["kill_once"], asked["kill_after"])
        answers = []
        for child, kept in running:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = [Path(place).read_text() if Path(place).exists() else "" for place in kept]
            for place in kept:
                Path(place).unlink(missing_ok=True)
            answers.append([code, *texts])
        sys.stdout.write(json.dumps(answers) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    warmed()
    gc.freeze()  # what is shared with a parent stays shared
    serve()
