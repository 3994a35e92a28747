"""Names of any kind become text that can be shown."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermoset.report.text import shortened, visible


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a cat", "a cat"),
        ("two\nlines", "two\\nlines"),
        ("\x00", "\\x00"),
        ("val\udcff.npz", "val\\udcff.npz"),  # a file's name that is not UTF-8
        ("a\u202eb", "a\\u202eb"),
        ("👩\u200d👧", "👩\u200d👧"),  # joined pictures stay joined
        ("مرحبا", "مرحبا"),
    ],
)
def test_what_cannot_be_shown_is_written_out(name, shown):
    assert visible(name) == shown


@given(st.text(st.characters(codec=None)))
def test_anything_can_be_written_to_a_page(name):
    shown = visible(name)
    assert shown.encode().decode() == shown
    assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in shown)


@given(st.text(min_size=1), st.integers(0, 10_000))
def test_short_names_stay_and_long_ones_are_cut_and_told_apart(name, label):
    short = shortened(name, f"class {label}")
    assert short == name if len(name) <= 60 else len(short) <= 60
    assert len(name) <= 60 or short.endswith(f"(class {label})")
