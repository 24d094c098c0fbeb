"""Whole numbers in the ways that users write them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.errors import BadValue
from cvpo.inputs import LARGEST, parse_whole_number, whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("200000", 200_000), ("200_000", 200_000), ("2e5", 200_000), ("2E+5", 200_000), ("200k", 200_000),
        ("0.2M", 200_000), ("1.5k", 1500), ("-3", -3), (" 7 ", 7), ("0", 0), (".5k", 500),
    ],
)  # fmt: skip
def test_ways_to_write_a_whole_number(text, number):
    assert parse_whole_number(text) == number
    assert type(parse_whole_number(text)) is int


@pytest.mark.parametrize(
    "text", ["", "k", "1.5", "1e-3", "five", "1e999", "nan", "inf", "1 000", "1,000", "0x10", "2kk"]
)
def test_what_is_no_whole_number_is_refused_by_its_own_text(text):
    with pytest.raises(BadValue, match="whole number") as error:
        parse_whole_number(text)
    assert text in str(error.value)


@settings(deadline=None)  # a loaded machine is no bug
@given(st.integers())
def test_every_integer_is_read_exactly(number):
    assert parse_whole_number(str(number)) == number
    assert whole_number("n", number) == number


@pytest.mark.parametrize("value", [5, 5.0, np.int64(5), np.uint8(5), np.float32(5), np.array(5)[()]])
def test_numbers_without_a_fraction_become_python_integers(value):
    assert whole_number("steps", value, 1) == 5
    assert type(whole_number("steps", value, 1)) is int


@pytest.mark.parametrize("value", ["5", "1e6", 5.5, float("nan"), float("inf"), True, None, [5], 5j, np.array([5])])
def test_anything_else_is_refused_by_name(value):
    with pytest.raises(BadValue, match=r"^steps must be a whole number, got "):
        whole_number("steps", value)


def test_the_least_value_is_part_of_the_message():
    with pytest.raises(BadValue, match=r"^steps must be >= 1, got 0$"):
        whole_number("steps", 0, 1)


@pytest.mark.parametrize("value", [2**63, 10**40, 10**400, 1e300])
def test_what_no_array_holds_is_refused_shortly(value):
    with pytest.raises(BadValue, match=r"seed must be <= 9223372036854775807, got 1?\d+") as caught:
        whole_number("seed", value, 0, LARGEST)
    assert len(str(caught.value)) < 120
