"""One place reads numbers: as typed, within bounds, and in next to no time whatever is typed."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from thermoset.bounds import bytes_of, exact_number, real_number, whole_number
from thermoset.errors import InputError
from thermoset.quoting import quoted


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("0.1", Fraction(1, 10)),
        (" 1e-3 ", Fraction(1, 1000)),
        ("1/3", Fraction(1, 3)),
        ("1e-000000003", Fraction(1, 1000)),
        (0.1, Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.array(0.25), Fraction(1, 4)),
        (np.int8(-3), Fraction(-3)),
        (Decimal("1e-9"), Fraction(1, 10**9)),
        (Fraction(2, 7), Fraction(2, 7)),
        (10**99, Fraction(10**99)),
        ("1e400", Fraction(10**400)),
        (f"{'3' * 100}/{'7' * 100}", Fraction(3, 7)),
        (Fraction(10**99, 10**99 + 1), Fraction(10**99, 10**99 + 1)),
    ],
)
def test_numbers_are_exact(value, number):
    assert exact_number(value) == number


@pytest.mark.parametrize(
    "value",
    ["1e-99999999", "1e401", "1e" + "9" * 90, "9" * 101, "nan", "inf", "1/0", "²", "", "x", "1e", "0.1\n",
     "1/" + "9" * 101, 10**100, 10**5000,
     Fraction(1, 10**100), Decimal("1e99999999"), Decimal("NaN"), Decimal("sNaN"), float("inf"), True, np.True_, None,
     1j, [1], np.array([1.0]), np.array(True), b"1"],
    ids=quoted,
)  # fmt: skip
def test_what_is_no_number_within_reason(value):
    assert exact_number(value) is None


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.1), np.array(0.5), Fraction(1, 3), Decimal("0.1")])
def test_reals_keep_their_bits(value):
    assert real_number(value, "x", 0, 1, "in range", "") == float(value)


@pytest.mark.parametrize(
    "value",
    ["0.5", True, np.True_, None, -1, 2, float("nan"), 10**400, 10**5000, 1j, [0.5], Decimal("sNaN")],
    ids=quoted,
)
def test_other_reals_are_named(value):
    with pytest.raises(InputError, match=r"^x must be in range; got .*\. Try 1\.$") as raised:
        real_number(value, "x", 0, 1, "in range", "Try 1.")
    assert quoted(value) in str(raised.value)


def test_whole_numbers():
    assert [whole_number(x, "n", 0, 9, "") for x in (3, np.uint8(3), np.array(3))] == [3, 3, 3]
    for value in (3.0, "3", True, np.True_, None, -1, 10, 10**5000, np.array([3]), Fraction(3)):
        with pytest.raises(InputError, match="n must be a whole number from 0 to 9; got "):
            whole_number(value, "n", 0, 9, "")
    with pytest.raises(InputError, match=r"from 0 to 2\*\*64 - 1; got -1"):
        whole_number(-1, "n", 0, 2**64 - 1, "")


def test_what_is_shown_is_one_short_line():
    for value in ("a\nb\x1b[31m", np.zeros((50, 50)), "x" * 10**6, 10**4000, 10**5000, ["\u202e"] * 100):
        assert quoted(value).isprintable()
        assert len(quoted(value)) <= 83


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GiB", 2**30),
        ("1 gib", 2**30),
        ("2Gi", 2**31),
        ("0.5GiB", 2**29),
        ("512MB", 512 * 10**6),
        ("64m", 64 * 10**6),
        ("1.5TB", 1_500_000_000_000),
        (" 3 PiB ", 3 * 2**50),
        ("1048576", 2**20),
        ("1048576B", 2**20),
        ("2000KiB", 2_048_000),
        ("1.0000005MiB", 2**20),  # half a byte more, which nobody can have
        (2**30, 2**30),
        (np.int64(2**40), 2**40),
        (2e9, 2 * 10**9),
    ],
)
def test_amounts_of_memory(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize(
    "value",
    ["", "4", "GiB", "1 GiBB", "1e9", "-1GiB", "1.2.3GiB", "½GiB", "1Eib", "9" * 200, "2000PiB", "0GiB", "1G iB",
     2**20 - 1, 2**60 + 1, True, None, float("nan"), [1], "1GiB\n1", "١GiB"],
    ids=quoted,
)  # fmt: skip
def test_other_amounts_are_refused(value):
    with pytest.raises(
        InputError, match=r"^--memory must be from 1MiB to 1024PiB, such as 1GiB or 512MB; got "
    ) as raised:
        bytes_of(value, "--memory")
    assert "\n" not in str(raised.value)
