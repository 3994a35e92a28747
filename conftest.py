"""Tiers of tests (`--tier`, see tests/tiers.py), and parts that may be missing."""

import os
import shutil
import tempfile
from collections import defaultdict
from importlib.util import find_spec

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # one worker for each core: threads of their own, which also wait busily, would
    for name in ("THERMOSET_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # only get in each other's way; read when NumPy and PyTorch are first imported

from tiers import TIERS, VARIABLE, pairwise

collect_ignore = ["tests/typed_client"]  # a project that uses the library, with planted mistakes: mypy reads it
for parts, examples in {
    ("torch",): ("src/thermoset/integrations/torch", "docs/deploy.md", "docs/frameworks.md"),
    ("torch", "lightning"): ("src/thermoset/integrations/lightning.py",),
}.items():
    collect_ignore += [] if all(map(find_spec, parts)) else examples


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which tier to run."""
    parser.addoption("--tier", choices=TIERS, default="test", help="which tests to run (tests/tiers.py); default: test")


def pytest_configure(config: pytest.Config) -> None:
    """Tell tests the tier. Compile afresh: no test passes on machine code that the sources no longer say."""
    os.environ[VARIABLE] = config.getoption("--tier")
    if "NUMBA_CACHE_DIR" not in os.environ:
        folder = os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="thermoset-compiled-")  # workers inherit it
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(trylast=True)  # Hypothesis has marked its tests by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier. Those of later tiers come first, so that what the last worker ends with is short."""
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    tiers: dict[pytest.Item, str] = {}
    for each in cases.values():
        met = pairwise([_values(item) for item in each])
        for place, item in enumerate(each):
            tiers[item] = _first_tier(item, first=place == 0, met=place in met)
    tier = config.getoption("--tier")
    runs = {item: _runs(item, tiers[item], tier) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not runs[item]])
    items[:] = sorted((item for item in items if runs[item]), key=lambda item: -TIERS.index(tiers[item]))


def _values(item: pytest.Item) -> dict[str, int]:
    """The values of the parameters of a case, each as the identity of the object that a test's author listed."""
    return {name: id(value) for name, value in item.callspec.params.items()} if hasattr(item, "callspec") else {}


def _first_tier(item: pytest.Item, *, first: bool, met: bool) -> str:
    """The first tier that runs a test; `met`: it is one of the cases in which every two values meet."""
    if item.get_closest_marker("evidence"):
        return "evidence"
    if item.get_closest_marker("long") or not met:
        return "long"
    return "quick" if first and not item.get_closest_marker("slow") else "test"


def _runs(item: pytest.Item, first: str, tier: str) -> bool:
    """Whether a tier runs a test whose first tier is known."""
    if tier == "all":
        return first != "evidence"
    if tier == "test":
        return first in ("quick", "test")
    repeated = item.get_closest_marker("scaled") or item.get_closest_marker("hypothesis")
    return first == tier or (tier in ("long", "evidence") and repeated is not None)
