import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.tasks.lidar import lidar

WIDTH = 2 * np.pi / 16


def read(*objects):
    """The 16 readings of one lidar; objects are (distance, angle)."""
    distance, angle = np.array(objects, dtype=float).T[:, None]
    seen = np.zeros(len(objects), dtype=int)
    return lidar(np.cos(angle), np.sin(angle), distance, seen, 1)[0, 0]


def readings(**bins):
    expected = np.zeros(16)
    for name, value in bins.items():
        expected[int(name[1:])] = value
    return expected


def test_an_object_in_the_middle_of_a_bin_gives_its_neighbours_half():
    # at 1.5 of 3 metres: v = 0.5
    np.testing.assert_allclose(read((1.5, 2.5 * WIDTH)), readings(b1=0.25, b2=0.5, b3=0.25), atol=1e-12)


def test_a_quarter_across_the_bin_leans_to_the_previous_one():
    np.testing.assert_allclose(read((0.6, 4.25 * WIDTH)), readings(b3=0.6, b4=0.8, b5=0.2), atol=1e-12)


def test_straight_ahead_lies_on_the_edge_between_the_last_bin_and_the_first():
    np.testing.assert_allclose(read((0.3, 0.0)), readings(b0=0.9, b15=0.9), atol=1e-12)


def test_straight_behind_lies_on_the_edge_between_bins_7_and_8():
    # arctan2 gives +pi here and almost -pi a hair to the right: both must read alike
    expected = readings(b7=0.9, b8=0.9)
    np.testing.assert_allclose(read((0.3, np.pi)), expected, atol=1e-12)
    np.testing.assert_allclose(read((0.3, -np.pi + 1e-9)), expected, atol=1e-8)


def test_just_right_of_ahead_falls_in_the_last_bin():
    np.testing.assert_allclose(read((0.0, -0.5 * WIDTH)), readings(b14=0.5, b15=1.0, b0=0.5), atol=1e-12)


@pytest.mark.parametrize("distance", [3.0, 3.1, 50.0])
def test_nothing_shows_beyond_three_metres(distance):
    assert not read((distance, 1.0)).any()


def test_the_nearest_wins_in_each_bin():
    near, far = (0.3, 2.5 * WIDTH), (1.5, 3.5 * WIDTH)
    np.testing.assert_allclose(read(near, far), readings(b1=0.45, b2=0.9, b3=0.5, b4=0.25), atol=1e-12)


def test_lidars_and_environments_do_not_mix():
    distance = np.array([[0.0, 1.5], [3.0, 0.0]])
    angle = np.array([[0.5, 4.5], [8.5, 10.5]]) * WIDTH
    got = lidar(np.cos(angle), np.sin(angle), distance, np.array([0, 1]), 2)
    expected = np.zeros((2, 2, 16))
    expected[0, 0, [15, 0, 1]] = 0.5, 1.0, 0.5
    expected[0, 1, [3, 4, 5]] = 0.25, 0.5, 0.25
    expected[1, 1, [9, 10, 11]] = 0.5, 1.0, 0.5
    np.testing.assert_allclose(got, expected, atol=1e-12)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 4), st.floats(-10, 10)), min_size=1, max_size=6), st.integers(0, 15))
def test_turning_by_a_bin_rolls_the_readings(objects, turns):
    turned = [(distance, angle + turns * WIDTH) for distance, angle in objects]
    np.testing.assert_allclose(read(*turned), np.roll(read(*objects), turns), atol=1e-9)
