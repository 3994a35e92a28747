"""Names of any length fit the page."""

from hypothesis import given
from hypothesis import strategies as st

from thermoset.report.shell import shortened


@given(st.text(min_size=1), st.integers(0, 10_000))
def test_short_names_stay_and_long_ones_are_cut_and_told_apart(name, label):
    short = shortened(name, f"class {label}")
    assert short == name if len(name) <= 60 else len(short) <= 60
    assert len(name) <= 60 or short.endswith(f"(class {label})")
