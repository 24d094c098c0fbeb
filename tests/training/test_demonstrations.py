"""Files of demonstrations: what is written can be read, and what is none is refused with its reason."""

import numpy as np
import pytest
from toys import Bandit, Desk

from cvpo.algorithms.base import Spec
from cvpo.envs.adapter import Environments
from cvpo.errors import BadValue
from cvpo.policies.record import Demonstrations
from cvpo.training import replay
from cvpo.training.own_data import pack, read_demonstrations


def test_demonstrations_keep_what_an_environment_overwrites(tmp_path):
    demonstrations, buffer = Demonstrations(), np.zeros(2)
    for step in range(3):
        buffer[:] = step
        demonstrations.add(buffer, np.zeros(1), 0.0, 0.0, buffer, False, step == 2)
    with np.load(demonstrations.save(tmp_path / "steps.npz")) as data:
        np.testing.assert_array_equal(data["observation"][:, 0], [0, 1, 2])


def test_demonstrations_with_several_choices_fit_the_replay(tmp_path):
    demonstrations = Demonstrations()
    for pace, lever in ((2, 0), (0, 1)):
        demonstrations.add(np.zeros(1), np.array([pace, lever]), 0.0, 0.0, np.zeros(1), False, True)
    file = demonstrations.save(tmp_path / "choices.npz")
    spec = Spec(1, 5, False, (1.0,), episode_length=10, choices=(3, 2))
    with Environments(Desk, 1, episode_length=10) as environments:
        packed = pack(read_demonstrations(file, environments, spec), spec, envs=1, capacity=1)
    np.testing.assert_array_equal(packed.action[0, :2, 0], [[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]])
    expected = replay.segment(spec, 1)
    assert [(x.shape[1:], x.dtype) for x in packed] == [(x.shape, x.dtype) for x in expected]


STEPS = {"observation": np.zeros((3, 2)), "action": np.zeros((3, 1)), "reward": np.zeros(3), "cost": np.zeros(3)}
STEPS |= {"next_observation": np.zeros((3, 2)), "terminated": np.zeros(3, bool), "ended": np.zeros(3, bool)}


def read_for_bandit(path):
    with Environments(Bandit, 1, episode_length=10) as environments:
        return read_demonstrations(path, environments, Spec(2, 1, False, (1.0,), episode_length=10))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"reward": np.zeros(())}, r"reward needs numbers for each step, got float64 of shape \(\)"),
        ({"ended": np.zeros(())}, "ended needs numbers for each step"),
        ({"cost": np.array(["a", "b", "c"])}, "cost needs numbers for each step, got <U1"),
        ({"cost": np.array([None] * 3)}, "not an npz file of numbers"),
        ({"cost": np.zeros(2)}, "cost has 2 steps and reward 3"),
        ({"reward": np.zeros((3, 2))}, "reward has 2 numbers a step, Bandit 1"),
        ({"reward": np.array([0, np.nan, 0])}, "reward has numbers that are NaN"),
        ({name: values[:0] for name, values in STEPS.items()}, "holds no steps"),
    ],
)
def test_arrays_that_are_no_demonstrations_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "steps.npz", **STEPS | arrays)
    with pytest.raises(BadValue, match=message):
        read_for_bandit(tmp_path / "steps.npz")


def test_files_that_are_no_demonstrations_are_refused(tmp_path):
    np.savez_compressed(tmp_path / "whole.npz", **STEPS)
    whole = (tmp_path / "whole.npz").read_bytes()
    garbled = bytearray(whole)
    garbled[60:90] = bytes(30)
    np.save(tmp_path / "array.npy", np.zeros(3))
    for content in (b"", b"no numbers", whole[: len(whole) // 2], garbled, (tmp_path / "array.npy").read_bytes()):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(BadValue, match=r"bad\.npz is not an npz file of numbers"):
            read_for_bandit(tmp_path / "bad.npz")


def test_arrays_that_demonstrations_do_not_need_are_left_alone(tmp_path):
    np.savez(tmp_path / "steps.npz", **STEPS, version=np.array("1.0"), episode_seeds=np.arange(2))
    assert len(read_for_bandit(tmp_path / "steps.npz").reward) == 3
