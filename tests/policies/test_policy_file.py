"""Policy files: the NumPy policy acts as the JAX one does, needs no JAX, and is what it says."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from policies.made_policies import EVERY_POLICY, Robot, make_policy

import cvpo
from cvpo.algorithms.shared.noise import draw_noise
from cvpo.envs.actions import NativeActions
from cvpo.errors import UserError
from cvpo.policies.best import best_epoch
from cvpo.policies.files import policy_path
from cvpo.runs.array_file import read_arrays, write_arrays


@pytest.mark.parametrize(("name", "discrete"), EVERY_POLICY)
def test_numpy_acts_as_jax_does(made, name, discrete):
    made = made(name, discrete)
    policy = cvpo.load(made.run)
    expected, _ = made.algorithm.act(made.params, made.observations, None)
    got = policy.act(made.observations)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    assert np.ptp(got) > 0.1  # the observations matter

    native = policy(made.observations)
    np.testing.assert_allclose(
        native, NativeActions(made.environments.action)(np.asarray(expected)), rtol=1e-6, atol=1e-5
    )
    one = policy(made.observations[3])
    np.testing.assert_allclose(one, native[3], rtol=1e-6, atol=1e-5)
    assert all(Robot(discrete).action_space.contains(action) for action in native)


@pytest.mark.parametrize(("name", "discrete"), EVERY_POLICY)
def test_noise_has_the_distribution_of_training(made, name, discrete):
    made = made(name, discrete)
    policy = cvpo.load(made.run)
    same = np.repeat(made.observations[:1], 20_000, axis=0)
    noise = draw_noise(made.spec, jax.random.key(1), (20_000,))
    theirs = np.asarray(made.algorithm.act(made.params, same, noise)[0], float)
    ours = policy.act(same, deterministic=False).astype(float)
    if discrete:
        shares = [np.bincount(x.astype(int), minlength=4) / len(x) for x in (ours, theirs)]
        np.testing.assert_allclose(*shares, atol=0.015)
    else:
        deviation = theirs.std(0)
        np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=0.05 * deviation.max())
        np.testing.assert_allclose(np.cov(ours.T), np.cov(theirs.T), atol=0.05 * deviation.max() ** 2)


def test_noise_at_its_smallest_is_that_of_training(tmp_path):
    made = make_policy(tmp_path, "cvpo", initial_scale=0.3, min_scale=0.29)
    same = np.repeat(made.observations[:1], 20_000, axis=0)
    noise = draw_noise(made.spec, jax.random.key(1), (20_000,))
    theirs = np.asarray(made.algorithm.act(made.params, same, noise)[0])
    ours = cvpo.load(made.run).act(same, deterministic=False)
    np.testing.assert_allclose(ours.std(0), theirs.std(0), rtol=0.03)


def test_noise_is_seeded(made):
    made = made("cvpo")
    first, second = cvpo.load(made.run), cvpo.load(made.run)
    np.testing.assert_array_equal(
        first(made.observations, deterministic=False), second(made.observations, deterministic=False)
    )
    assert not np.array_equal(
        first(made.observations, deterministic=False), first(made.observations, deterministic=False)
    )
    first.seed(5)
    drawn = first(made.observations, deterministic=False)
    first.seed(5)
    np.testing.assert_array_equal(drawn, first(made.observations, deterministic=False))


def test_acting_needs_no_jax(made):
    made = made("cvpo")
    script = """
import sys, numpy as np, cvpo
policy = cvpo.load(sys.argv[1])
policy(np.zeros(7)), policy(np.zeros((2, 7)), deterministic=False)
assert "jax" not in sys.modules, "jax was imported"
"""
    subprocess.run([sys.executable, "-c", script, str(made.run)], check=True)


@pytest.mark.parametrize("settings", [{"normalize_observations": False}, {"full_covariance": False}])
def test_settings_that_change_what_a_policy_is(tmp_path, settings):
    made = make_policy(tmp_path / "run", "cvpo", **settings)
    policy = cvpo.load(made.run)
    small = made.observations / 50  # float32 is exact to 1e-6 for activations near 1 only
    expected, _ = made.algorithm.act(made.params, small, None)
    np.testing.assert_allclose(policy.act(small), expected, rtol=0, atol=1e-6)
    assert policy(made.observations, deterministic=False).shape == (100, 1, 3)


def test_names_say_what_they_are(made):
    made = made("cvpo")
    arrays, info = read_arrays(policy_path(made.run, "newest"))
    assert {name: array.shape for name, array in arrays.items()} == {
        "observation/mean": (7,),
        "observation/deviation": (7,),
        "actor/layer_0/weight": (7, 32),
        "actor/layer_0/bias": (32,),
        "actor/layer_1/weight": (32, 16),
        "actor/layer_1/bias": (16,),
        "actor/mean/weight": (16, 3),
        "actor/mean/bias": (3,),
        "actor/noise/weight": (16, 6),
        "actor/noise/bias": (6,),
    }
    assert info["kind"] == "gaussian"
    assert info["action"]["low"] == pytest.approx([-2.0, 0.0, 0.1])


def test_where_there_is_no_policy_the_error_says_so(tmp_path):
    with pytest.raises(match="nowhere does not exist"):
        cvpo.load(tmp_path / "nowhere")
    with pytest.raises(match="no policy at"):
        cvpo.load(tmp_path)
    made = make_policy(tmp_path / "run", "cvpo")
    with pytest.raises(match="no two evaluations in a row"):
        cvpo.load(made.run, which="best")
    with pytest.raises(UserError, match="newest or best, got 'first'"):
        cvpo.load(made.run, which="first")
    with pytest.raises(UserError, match="must be finite"):
        cvpo.load(made.run)(np.full(7, np.nan))
    write_arrays(tmp_path / "old.safetensors", {}, {})
    with pytest.raises(UserError, match="another version of cvpo"):
        cvpo.load(tmp_path / "old.safetensors")


def evaluations(*pairs: tuple[float, float]) -> list[dict[str, float]]:
    return [{"epoch": i, "eval/reward": reward, "eval/cost": cost} for i, (reward, cost) in enumerate(pairs)]


def test_the_best_policy_was_within_its_limit_twice():
    assert best_epoch(evaluations((1, 0), (2, 0), (9, 11), (8, 0), (3, 0), (4, 0)), [10]) == 4
    assert best_epoch(evaluations((9, 11), (8, 0), (7, 12), (6, 0)), [10]) is None
    assert best_epoch([], [10]) is None
    unevaluated = [line for i, line in enumerate(evaluations((1, 0), (50, 0), (2, 0), (3, 0))) if i != 1]
    assert best_epoch([*unevaluated, {"epoch": 9}], [10]) == 3
    assert best_epoch(evaluations((1, 99), (2, 99)), [float("inf")]) == 1
    two = [{"epoch": i, "eval/reward": i, "eval/cost_0": 1, "eval/cost_1": c} for i, c in enumerate((1, 1, 1, 9, 9))]
    assert best_epoch(two, [2, 5]) == 2
