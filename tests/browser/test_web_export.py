"""The page of `to_web` in a browser: the answers of the library for csv and npy files, and what it cannot do."""

import functools
import http.server
import json
import threading

import numpy as np
import pytest

import thermoset as ts
from pages import rows_of
from parts import missing
from thermoset.errors import InputError, MissingExtraError
from thermoset.integrations import web

pytestmark = pytest.mark.long


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def predictor():
    known, fresh = rows_of(4000, 6, seed=3, classes=("a", "b,c", 'd"e', "f", "g", "h")).split(0.6)
    return ts.TwoTemperaturePredictor("aps", 0.2, "even", answer="error<=0.1", review="size>3").fit(known), fresh


@pytest.fixture(scope="module")
def served(tmp_path_factory, predictor):
    folder = tmp_path_factory.mktemp("web")
    try:
        web.to_web(predictor[0], folder)
    except MissingExtraError as absent:
        missing(str(absent))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(chromium, served):
    opened = chromium.new_page()
    asked, faults = [], []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.goto(served[1])
    opened.wait_for_function("document.getElementById('message').textContent === 'Ready.'", timeout=120_000)
    yield opened
    assert [url for url in asked if not url.startswith((served[1], "blob:"))] == []
    assert faults == []
    opened.close()


def give(page, path):
    """Choose a file, and wait until the page has answered or complained."""
    page.set_input_files("#file", path)
    page.wait_for_function(
        "!document.getElementById('results').hidden || document.getElementById('message').className === 'bad'",
        timeout=120_000,
    )


@pytest.mark.parametrize("kind", ["named.csv", "bare.csv", "rows.npy", "fortran.npy", "single.npy"])
def test_the_page_gives_the_librarys_answers(page, predictor, tmp_path, kind):
    model, fresh = predictor
    rows = fresh.take(np.arange(1100))  # more than one block
    path = tmp_path / kind
    if kind == "named.csv":
        ts.save(path, rows)
    elif kind == "bare.csv":
        np.savetxt(path, rows.logits, delimiter=",", fmt="%.17g")
    else:
        array = rows.logits.astype(np.float32 if kind == "single.npy" else np.float64)
        np.save(path, np.asfortranarray(array) if kind == "fortran.npy" else array)
        rows = ts.Logits(array, rows.labels, rows.classes)
    give(page, path)
    found, expected = page.evaluate("results"), model.predict_records(rows)
    assert [one["label"] for one in found] == [one.label for one in expected]
    assert [tuple(one["set"]) for one in found] == [one.set for one in expected]
    assert [one["action"] for one in found] == [one.action for one in expected]
    np.testing.assert_allclose([one["confidence"] for one in found], [one.confidence for one in expected], atol=1e-12)
    assert page.locator("#rows tr").count() == 200


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("narrow.csv", b"1,2\n3,4\n"),
        ("word.csv", b"1,2,3,4,5,x\n1,2,3,4,5,y\n"),
        ("empty.csv", b""),
        ("foreign.npy", b"PK\x03\x04 not an array at all"),
        ("gap.csv", b"1,2,3,4,5,6\n1,2,,4,5,6\n"),
        ("header.csv", b'a,"b,c","d""e",f,g,h\n'),
        ("probabilities.csv", b".1,.2,.1,.2,.2,.2\n" * 3),
    ],
)
def test_a_bad_file_gets_one_clear_line(page, tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    give(page, path)
    said = page.inner_text("#message")
    assert said.startswith(f"{name}: ")
    assert len(said.splitlines()) == 1
    assert page.locator("#results").is_hidden()


def test_a_page_that_is_opened_as_a_file_says_how_to_serve_it(chromium, served):
    opened = chromium.new_page()
    opened.goto((served[0] / "index.html").as_uri())
    assert "http.server" in opened.inner_text("#message")
    opened.close()


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_but_the_table_scrolls_sideways(page, predictor, tmp_path, width):
    path = tmp_path / "rows.csv"
    ts.save(path, predictor[1].take(np.arange(50)))
    page.set_viewport_size({"width": width, "height": 900})
    give(page, path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_page_is_refused_where_it_would_not_work(tmp_path, predictor):
    rows = rows_of(1200, 4, seed=5)
    grouped = ts.Logits(rows.logits, rows.labels, groups=np.arange(1200) % 2)
    with pytest.raises(InputError):
        web.to_web(ts.TwoTemperaturePredictor("lac", grouping="group").fit(grouped), tmp_path / "page")
    with pytest.raises(InputError):
        web.to_web(predictor[0], tmp_path / "page", runtime=tmp_path)
    assert not (tmp_path / "page").exists()


def test_the_page_knows_the_predictor(served, predictor):
    about = json.loads((served[0] / "about.json").read_text(encoding="utf-8"))
    assert about["classes"] == list(predictor[0].class_names_)
    assert about["temperature"] == predictor[0].temperature_
    assert sorted(one.name for one in served[0].iterdir()) == sorted({*web.WEB_FILES, *web.RUNTIME_FILES})
