"""The service, as its README starts it: the real uvicorn with two workers, asked over HTTP by many at once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

import thermoset as ts
from conftest import ROOT
from law import generated
from parts import require

pytestmark = pytest.mark.long

require("fastapi", "test")
require("uvicorn", "test")

NAMES = ["ant", "bee", "cat", "dog"]


class Service(NamedTuple):
    url: str
    process: subprocess.Popen

    def ask(self, path, body=None):
        """The status and the answer."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def start(path, port):
    command = [sys.executable, "-m", "uvicorn", "examples.service.app:app", "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "THERMOSET_PREDICTOR": str(path), "THERMOSET_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, "--workers", "2", "--log-level", "warning"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def predictor():
    return ts.TwoTemperaturePredictor("raps").fit(ts.Logits(*generated(600, 4), NAMES))


@pytest.fixture(scope="module")
def service(predictor, tmp_path_factory):
    path = tmp_path_factory.mktemp("service") / "predictor.json"
    predictor.save(path)
    port = free_port()
    process = start(path, port)
    running = Service(f"http://127.0.0.1:{port}", process)
    workers = set()
    try:
        for _ in range(1200):  # until both workers have answered
            assert process.poll() is None, process.stdout.read()
            try:
                with ThreadPoolExecutor(8) as pool:
                    workers |= {found["process"] for _, found in pool.map(running.ask, ["/health"] * 16)}
            except OSError:
                time.sleep(0.1)
            if len(workers) == 2:
                break
        assert len(workers) == 2
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "Traceback" not in output


def records(predictor, rows, ids=None):
    return [
        {"label": one.label, "confidence": one.confidence, "set": list(one.set)}
        for one in predictor.predict_records(rows, ids=ids)
    ]


def test_it_says_what_it_serves(service):
    status, found = service.ask("/health")
    assert status == 200
    assert {key: found[key] for key in ("status", "n_classes", "alpha", "method")} == {
        "status": "ok",
        "n_classes": 4,
        "alpha": 0.1,
        "method": "raps",
    }


def test_answers_are_those_of_the_predictor_whoever_asks_and_with_whom(service, predictor):
    """64 requests of 1 to 40 rows, eight at a time: a row's answer is that of the library."""
    rows = generated(1000, 4, seed=5)[0].astype(np.float64)
    cuts = np.random.default_rng(0).integers(0, 960, size=64)
    asked = [rows[cut : cut + 1 + cut % 40] for cut in cuts]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda part: service.ask("/predict", {"logits": part.tolist()}), asked))
    assert [status for status, _ in answers] == [200] * 64
    assert [found for _, found in answers] == [records(predictor, part) for part in asked]


def test_masks_and_ids(service, predictor):
    rows = [[1.0, 0.5, None, 0.2], [None, None, 0.0, None]]
    status, found = service.ask("/predict", {"logits": rows, "ids": ["a", "b"]})
    masked = [[-np.inf if value is None else value for value in row] for row in rows]
    assert (status, found) == (200, records(predictor, masked, ids=["a", "b"]))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"logits": [[1.0, 2.0]]}, "X has 2 features, but TwoTemperaturePredictor is expecting 4"),
        ({"logits": [[1.0, 2.0, 3.0, 4.0], [1.0]]}, "rows of equal length"),
        ({"logits": [[None] * 4]}, "-inf for every class"),
        ({"logits": [[1e400, 0, 0, 0]]}, "is +inf"),
        ({"logits": [["nan", 0, 0, 0]]}, "is NaN"),
        ({"logits": [[0, 0, 0, 0]], "ids": ["a", "b"]}, "ids"),
        ({"logits": []}, "at least 1 item"),
        ({"logits": [[0] * 4] * 10_001}, "at most 10000 items"),
        ({"logits": "many"}, "valid list"),
        ({}, "Field required"),
        (b"{", "JSON decode error"),
        (b"[" * 100_000, ""),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(service, body, said):
    status, found = service.ask("/predict", body)
    assert status in (400, 422)
    assert said in json.dumps(found["detail"])


def test_other_methods_and_paths(service):
    assert service.ask("/predict")[0] == 405
    assert service.ask("/nothing")[0] == 404


def test_a_damaged_predictor_stops_the_start(tmp_path):
    (tmp_path / "predictor.json").write_text("{}")
    command = [sys.executable, "-m", "uvicorn", "examples.service.app:app", "--port", str(free_port())]
    for path, said in ((tmp_path / "predictor.json", "predictor.json"), (tmp_path / "none.json", "no such file")):
        environment = {**os.environ, "THERMOSET_PREDICTOR": str(path)}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode != 0
        assert said in done.stderr
