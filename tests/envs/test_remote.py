"""Environments of former years in interpreters of their own: gym 0.21 and gymnasium 0.28.1 with NumPy 1."""

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from old_interpreters import GYM_021, GYMNASIUM_028, make_interpreter

import cvpo
from cvpo.envs.adapter import Environments
from cvpo.envs.errors import EnvironmentFailed, WorkerDied
from cvpo.envs.sources import make_plain

pytestmark = pytest.mark.slow
OLD = Path(__file__).parent / "old"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.getbasetemp()


@pytest.fixture(scope="session")
def gym_021(folder):
    return make_interpreter(folder / "gym-021", GYM_021)


@pytest.fixture(scope="session")
def gymnasium_028(folder):
    return make_interpreter(folder / "gymnasium-028", GYMNASIUM_028)


@pytest.fixture(autouse=True)
def in_folder(monkeypatch):
    monkeypatch.chdir(OLD)  # modules are found where the command is called


def test_the_interpreters_are_old_and_know_nothing_of_this_package(gym_021, gymnasium_028):
    for python, package in ((gym_021, "gym"), (gymnasium_028, "gymnasium")):
        program = f"import {package}, numpy; print({package}.__version__, numpy.__version__)"
        version, numpy = subprocess.check_output([python, "-c", program], text=True).split()
        assert version in ("0.21.0", "0.28.1") and numpy.startswith("1.")
        for absent in ("cvpo", "jax"):
            assert subprocess.run([python, "-c", f"import {absent}"], capture_output=True).returncode


def test_gym_021(gym_021, capfd):
    with Environments(cvpo.remote("old_gym_envs:OldTracking-v0", python=gym_021), 3) as envs:
        assert (envs.name, envs.episode_length, envs.obs_size) == ("OldTracking-v0", 20, 1)
        first = envs.reset([1, 2, 3])
        expected = [np.float32(np.random.RandomState(seed).uniform(-1, 1)) for seed in (1, 2, 3)]
        np.testing.assert_array_equal(first[:, 0], expected)
        obs, action = first, np.array([[0.5], [-0.5], [0.0]])
        for time in range(1, 21):
            step = envs.step(action)
            np.testing.assert_allclose(step.reward, 1 - (action - obs)[:, 0] ** 2, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(step.costs, action**2)
            assert step.ended.all() == (time == 20) and not step.terminated.any()  # its time limit truncates
            obs = step.obs
        assert (step.next_obs != step.obs).all()  # the last observation, and the first of the next episode
        np.testing.assert_array_equal(envs.reset([1, 2, 3]), first)
    printed = capfd.readouterr()
    assert "a stray print" in printed.err and not printed.out


def test_gym_021_draws_pictures_and_its_exceptions_have_their_traceback(gym_021):
    env = make_plain(cvpo.remote("old_gym_envs:OldTracking-v0", python=gym_021), render=True)
    env.reset(seed=1)
    env.step(env.action_space.sample())
    np.testing.assert_array_equal(env.render(), np.full((4, 6, 3), 1, np.uint8))
    env.close()
    with Environments(cvpo.remote("old_gym_envs:OldTracking", python=gym_021, fail_at=2), 1, episode_length=5) as envs:
        envs.reset([1])
        envs.step(np.zeros((1, 1)))
        with pytest.raises(EnvironmentFailed, match=r"(?s)the old simulator exploded.*old_gym_envs\.py.*in step"):
            envs.step(np.zeros((1, 1)))


@pytest.mark.parametrize("name", ["Tracking28-v0", "SixValues-v0"])
def test_gymnasium_028_with_five_and_six_values(gymnasium_028, name):
    length = None if name == "Tracking28-v0" else 20
    with Environments(
        cvpo.remote(f"old_gymnasium_envs:{name}", python=gymnasium_028), 2, episode_length=length
    ) as envs:
        assert envs.observation == {"dict": [["signal", {"box": [1]}], ["bit", {"one_hot": 2, "start": 0}]]}
        obs = envs.reset([1, 2])
        expected = np.random.Generator(np.random.PCG64(1)).uniform(-1, 1)
        np.testing.assert_allclose(obs[0, 0], expected, rtol=1e-6)
        ended = []
        for _ in range(25):
            step = envs.step(np.full((2, 1), 0.5))
            np.testing.assert_allclose(step.costs, 0.25)
            ended.append(step.ended[0])
        assert np.flatnonzero(ended).tolist() == [19]
    ends = cvpo.remote("old_gymnasium_envs:Tracking28-v0", python=gymnasium_028, end=3)
    with Environments(ends, 1) as envs:
        envs.reset([1])
        assert [bool(envs.step(np.zeros((1, 1))).terminated[0]) for _ in range(6)] == [False, False, True] * 2


def test_a_worker_of_another_interpreter_that_is_killed_is_named(gymnasium_028):
    with Environments(cvpo.remote("old_gymnasium_envs:Tracking28-v0", python=gymnasium_028), 2) as envs:
        envs.reset([1, 2])
        os.kill(envs._copies._workers[1].process.pid, signal.SIGKILL)
        named = "Tracking28-v0, environment 1 of 2, at step 1 of its epoch, was killed by SIGKILL"
        with pytest.raises(WorkerDied, match=named):
            envs.step(np.zeros((2, 1)))


def test_the_command_trains_resumes_evaluates_and_films(gym_021, tmp_path):
    run = ["cvpo", "train", "old_gym_envs:OldTracking-v0", "--python", gym_021, "--steps", "80", "--cost-limit", "2"]
    small = ["--envs", "2", "--eval-episodes", "2", "--hidden", "8", "--batch-size", "16", "--particles", "4"]
    subprocess.run([*run, *small, "--run-dir", tmp_path / "run"], check=True)
    subprocess.run(["cvpo", "train", "--resume", tmp_path / "run", "--steps", "120", "--trust"], check=True)
    assert len(cvpo.Run(tmp_path / "run").metrics()) == 3
    assert cvpo.evaluate(tmp_path / "run", episodes=2, trust=True)["episodes"] == 2
