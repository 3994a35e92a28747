"""Odd places to write to and to read from: refused before the work, and left as they are."""

import csv
import os
import signal
import socket
import stat
from pathlib import Path

import numpy as np
import pytest

import thermoset as ts
from attacks.written import WRITING, writing
from law import generated
from thermoset.io.files import check_folder, write_whole
from thermoset.report import build_report, write_page
from tiers import cases

pytestmark = [pytest.mark.long, pytest.mark.scaled]


def fifo(path):
    os.mkfifo(path)


def device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # /dev/null, by another name
    except PermissionError:
        pytest.skip("only root makes devices")


def listening(path):
    with socket.socket(socket.AF_UNIX) as door:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket has at most 107 bytes
        door.bind(path.name)
        os.chdir(here)


def link_to(make):
    def linked(path):
        make(path.with_name("linked"))
        path.symlink_to("linked")

    return linked


def loop(path):
    path.symlink_to(path.name)


ODD = {
    "fifo": fifo,
    "device": device,
    "socket": listening,
    "folder": Path.mkdir,
    "link to fifo": link_to(fifo),
    "link to device": link_to(device),
    "link to folder": link_to(Path.mkdir),
    "link to /dev/null": lambda path: path.symlink_to("/dev/null"),
    "loop": loop,
}


def some(every, seed, n):
    """A few of many, the same in every run."""
    return [every[i] for i in np.random.default_rng(seed).permutation(len(every))[:n]]


def state(folder):
    return {path.name: (path.lstat().st_mode, path.lstat().st_ino) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def writers():
    """Every function that writes a file of its caller's choice."""
    data = ts.Logits(*generated(400, 4, signal=0.5))
    predictor = ts.TwoTemperaturePredictor().fit(data)
    swept = ts.sweep(data, temperatures=[1.0], trials=2)
    report = build_report(predictor, data, name="rows", trials=2)

    def predictions(path):
        with ts.io.open_predictions(path):
            pass

    return {
        "logits.csv": lambda path: ts.save(path, data),
        "logits.npy": lambda path: ts.save(path, data),
        "logits.npz": lambda path: ts.save(path, data),
        "predictor.json": predictor.save,
        "sweep.csv": swept.save,
        "sets.jsonl": predictions,
        "page.html": lambda path: write_page(report, path),
    }


@pytest.mark.parametrize("odd", ODD)
def test_no_writer_replaces_what_is_not_a_file(writers, tmp_path, odd):
    for name, write in writers.items():
        ODD[odd](tmp_path / name)
        before = state(tmp_path)
        with pytest.raises(ts.InputError, match=r"is a folder|not a regular file|Too many levels of symbolic links"):
            write(tmp_path / name)
        assert state(tmp_path) == before
        for path in tmp_path.iterdir():
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.mark.parametrize("odd", ODD)
def test_every_command_refuses_them_before_the_work(zygote, files, whole, tmp_path, odd):
    seed = list(ODD).index(odd)
    every = [(name, path) for name in WRITING for path in some(list(whole[name]), seed, cases(1))]
    for i, (name, path) in enumerate(some(every, seed, cases(3))):
        out = tmp_path / str(i)
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        ODD[odd](out / path)
        before = state((out / path).parent)
        ended = zygote.run(*writing(files, out)[name], signal=signal.SIGKILL, at={"moment": "opening", "file": 0})
        ended.assert_refused(str(out / path))  # and nothing was opened to be written: the run would have been killed
        assert state((out / path).parent) == before


@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(zygote, files, tmp_path):
    tmp_path.chmod(0o555)
    for name in WRITING:
        ended = zygote.run(*writing(files, tmp_path)[name])
        assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
        assert "ermission denied" in ended.stderr


def test_a_link_to_nothing_is_in_the_way_of_a_folder(tmp_path):
    (tmp_path / "out").symlink_to("none")
    with pytest.raises(ts.InputError, match="cannot be created"):
        check_folder(tmp_path / "out" / "made")
    with pytest.raises(ts.InputError, match="cannot be created"):
        check_folder(tmp_path / "out")


# --- what is read is not replaced -----------------------------------------------------------------------------------

LINKS = {"the same": None, "hard link": os.link, "symbolic link": os.symlink}


@pytest.mark.parametrize("how", LINKS)
@pytest.mark.parametrize("name", [name for name in WRITING if name != "study"])
def test_no_command_replaces_its_input(zygote, files, whole, tmp_path, name, how):
    """Whichever of the files that it writes is, by some name, the one that it reads."""
    for path in some(list(whole[name]), WRITING.index(name), cases(1)):
        given, out = tmp_path / path / files.val.name, tmp_path / path / "out"
        out.mkdir(parents=True)
        if how == "the same":
            (out / path).write_bytes(files.val.read_bytes())
            given.symlink_to(out / path)
        else:
            given.write_bytes(files.val.read_bytes())
            LINKS[how](given, out / path)
        asked = writing(files._replace(val=given, fresh=given), out)[name]
        zygote.run(*asked).assert_refused("is the file to read from")
        assert given.read_bytes() == files.val.read_bytes()


@pytest.mark.parametrize("place", ["cells.csv", "tables/claims.csv", "figures/cells/bound.png"])
def test_a_study_does_not_replace_the_logits_it_reads(zygote, files, tmp_path, place):
    given = tmp_path / "in" / "cells.csv"
    given.parent.mkdir()
    ts.save(given, ts.load(files.val))
    before = given.read_bytes()
    (tmp_path / "out" / place).parent.mkdir(parents=True)
    os.link(given, tmp_path / "out" / place)
    zygote.run("study", given.parent, "--out", tmp_path / "out").assert_refused("is the file to read from")
    zygote.run("study", given.parent, "--out", given.parent).assert_refused("is the file to read from")
    assert given.read_bytes() == before


def test_files_beside_an_npy_file_belong_to_it(zygote, files, tmp_path):
    ts.save(tmp_path / "val.npy", ts.load(files.val))
    out = tmp_path / "sweep.csv"
    out.symlink_to(tmp_path / "val_labels.npy")
    zygote.run("sweep", tmp_path / "val.npy", "--out", tmp_path).assert_refused("is the file to read from")


# --- predictors that are no files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["predict", "check", "report"])
@pytest.mark.parametrize("odd", ["fifo", "device", "folder", "loop", "link to fifo"])
def test_a_predictor_is_a_file(zygote, files, tmp_path, command, odd):
    path = tmp_path / "predictor.json"
    ODD[odd](path)
    out = () if command == "check" else ("--out", tmp_path / ("sets.csv" if command == "predict" else "page.html"))
    ended = zygote.run(command, path, files.val, *out)
    ended.assert_refused(str(path))


def test_a_predictor_without_an_end_is_not_read_to_it(zygote, files, tmp_path):
    zygote.run("check", "/dev/zero", files.val).assert_refused("/dev/zero: is not a regular file")
    long = tmp_path / "long.json"
    with long.open("wb") as stream:
        stream.truncate(1 << 40)  # takes no room on disk
    zygote.run("check", long, files.val).assert_refused("has more than 268,435,456 bytes")


# --- names and modes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o400])
def test_a_file_keeps_the_mode_of_the_one_it_replaces(tmp_path, mode):
    path = tmp_path / "sets.csv"
    path.write_text("older")
    path.chmod(mode)
    with write_whole(path) as stream:
        (hidden,) = (other for other in tmp_path.iterdir() if other != path)
        assert stat.S_IMODE(hidden.stat().st_mode) & ~mode == 0, "never more open than the older one"
        stream.write(b"newer")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"newer"


def test_a_new_file_has_the_mode_that_the_user_gives_to_new_files(tmp_path):
    before = os.umask(0o027)
    try:
        with write_whole(tmp_path / "sets.csv") as stream:
            stream.write(b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "sets.csv").stat().st_mode) == 0o640


@pytest.mark.parametrize("letter", ["a", "ö", "猫", "😀", "\udcff"])
def test_names_as_long_as_the_system_allows(tmp_path, letter):
    size = len(os.fsencode(letter))
    path = tmp_path / (letter * ((255 - 4) // size) + ".csv")
    with write_whole(path) as stream:
        stream.write(b"new")
    assert [made.name for made in tmp_path.iterdir()] == [path.name]


NAMES = {  # what a name holds, and how that is shown
    "a[/b]": "a[/b]",
    "[bold]x": "[bold]x",
    "a[red": "a[red",
    ":cat:": ":cat:",
    "two\nlines": r"two\nlines",
    "\x1b[31m": r"\x1b[31m",
    "a\udcff": r"a\udcff",
    "=1+1": "=1+1",
    "$x$ 100%": "$x$ 100%",
}


@pytest.mark.parametrize("stem", NAMES)
def test_names_are_text_whatever_they_hold(zygote, files, tmp_path, stem):
    given = tmp_path / f"{stem}.npz"
    given.parent.mkdir(exist_ok=True)
    given.write_bytes(files.val.read_bytes())
    out = tmp_path / f"{stem} out"
    out.mkdir()
    every = writing(files._replace(val=given, folder=given.parent), out)
    for name in ("tune", "study") if cases(1) == 1 else WRITING:
        ended = zygote.run(*every[name])
        assert (ended.returncode, ended.stderr) == (0, ""), (name, ended)
        assert f"{NAMES[stem]} out" in ended.stdout, name
    with (out / "cells.csv").open(newline="", encoding="utf-8") as stream:
        name = next(csv.DictReader(stream))["file"]
    assert name.removeprefix("'") == Path(NAMES[stem]).name  # which keeps spreadsheets from computing it
    said = "finds nothing" if "[" in stem else "there is no such file"  # what is not there may be a pattern
    zygote.run("tune", f"{given}.npz").assert_refused(f"{NAMES[stem]}.npz.npz: {said}")
