"""What the commands show of groups of rows."""

import io

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.cli.output import Screen
from thermoset.cli.promises import show_check

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows():
    logits, labels = generated(3000, 4, signal=0.0, seed=0)
    sites = np.array([f"site {code}\x1b[31m" for code in np.arange(3000) % 7])
    hard = np.where(np.arange(3000) % 7 == 3, 12.0, 0.0)[:, None]
    logits = logits + hard * np.random.default_rng(1).normal(size=logits.shape)
    return ts.Logits(logits, labels, groups=sites)


def shown(report):
    text = io.StringIO()
    show_check(Screen(file=text, width=100), report)
    return text.getvalue()


def test_a_check_shows_the_lowest_groups(rows):
    fitted, fresh = rows.split(0.5)
    plain = ts.TwoTemperaturePredictor("lac", 0.2, prefer="small").fit(fitted)
    text = shown(plain.check(fresh))
    assert "1 of 7 groups have coverage significantly below 0.8 (not promised for any). The lowest:" in text
    assert "site 3\\x1b[31m" in text
    assert "\x1b" not in text
    assert "PASS: coverage is consistent with the promised" in text
    by_group = ts.TwoTemperaturePredictor("lac", 0.2, prefer="small", grouping="group").fit(fitted)
    text = shown(by_group.check(fresh))
    assert "0 of 7 groups have coverage significantly below 0.8 (promised for each)" in text
    text = shown(plain.check(fresh.logits, fresh.labels))
    assert "groups" not in text


def test_a_group_that_fell_back_has_no_p_value(rows):
    fitted, fresh = rows.split(0.5)
    options = {"prefer": "small", "grouping": "group", "fallback": "pooled"}
    by_group = ts.TwoTemperaturePredictor("lac", 0.2, **options).fit(fitted)
    named = ["mars"] * 40 + np.asarray(fresh.groups)[40:].tolist()
    labels = np.where(np.arange(1500) < 40, fresh.logits.argmin(axis=1), fresh.labels)
    text = shown(by_group.check(fresh.logits, labels, groups=named))
    (line,) = [line for line in text.splitlines() if line.strip().startswith("mars")]
    assert line.split()[1] == "40"
    assert line.split()[-2] == "to", "the interval is the last column that is filled"
