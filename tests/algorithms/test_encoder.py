"""Images: from the environment's bytes to features, through training, policy files and what acts without JAX."""

import json
from functools import partial

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from saved_runs import untimed
from toys import Gauge, Tracking

import cvpo
from cvpo.algorithms.base import Spec
from cvpo.algorithms.registry import build
from cvpo.algorithms.shared import encoder
from cvpo.envs.adapter import Environments
from cvpo.envs.spaces import flatten, images_of, numbers_in, size_of
from cvpo.envs.worker.spaces import observation_spec
from cvpo.errors import BadValue
from cvpo.policies.actor import Actor
from cvpo.presets import make_config
from cvpo.runs.directory import read_config

TINY = {"envs": 2, "eval_episodes": 2, "eval_every": 1, "hidden": (8,), "episode_length": 20}


@pytest.mark.parametrize("size", [(7, 12), (8, 8), (1, 3)])
def test_the_product_of_patches_is_a_convolution(size):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, *size, 3)).astype(np.float32)
    weight, bias = rng.standard_normal((27, 5)).astype(np.float32), rng.standard_normal(5).astype(np.float32)
    expected = jax.lax.conv_general_dilated(
        x, weight.reshape(3, 3, 3, 5), (2, 2), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(encoder.convolve((weight, bias), jnp.asarray(x)), expected + bias, rtol=2e-4, atol=2e-4)


def test_observations_with_images_are_bytes_with_the_numbers_behind_them():
    space = gym.spaces.Dict(
        speed=gym.spaces.Box(-9, 9, (2,), np.float32),
        camera=gym.spaces.Box(0, 255, (3, 4, 1), np.uint8),
        gear=gym.spaces.Discrete(3),
    )
    spec = observation_spec(space)
    assert images_of(spec) == ((3, 4, 1),) and size_of(spec) == 12 + 4 * 5
    image = np.arange(12, dtype=np.uint8).reshape(3, 4, 1)
    flat, batched = flatten(spec, {"speed": [1.5, -2.25], "camera": image, "gear": 2})
    assert flat.dtype == np.uint8 and flat.shape == (32,) and not batched
    np.testing.assert_array_equal(flat[:12], image.reshape(-1))
    numbers = dict(zip([key for key, _ in spec["dict"] if key != "camera"], ([0, 0, 1], [1.5, -2.25]), strict=True))
    expected = [number for key in sorted(numbers) for number in numbers[key]]
    np.testing.assert_array_equal(sorted(numbers_in(spec, flat)), sorted(expected))
    with pytest.raises(ValueError, match=r"observation\['camera'\] is an image: it must have dtype uint8, got float"):
        flatten(spec, {"speed": [1.5, -2.25], "camera": image / 255, "gear": 2})


@pytest.mark.parametrize("in_parts", [False, True])
def test_an_observation_stays_what_it_was_when_the_next_one_comes(in_parts):
    with Environments(partial(Gauge, in_parts=in_parts), 3, episode_length=20) as envs:
        first = envs.reset([1, 2, 3])
        kept = first.copy()
        second = envs.step(np.zeros((3, 1))).obs
        assert (second != kept).any()
        np.testing.assert_array_equal(first, kept)


def test_images_are_the_same_wherever_the_environment_runs():
    def vector():
        return gym.vector.SyncVectorEnv([Gauge] * 2, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)

    seen = []
    for make, processes in ((Gauge, False), (Gauge, True), (vector, False)):
        with Environments(make, 2, episode_length=20, processes=processes) as envs:
            steps = [envs.reset([1, 2]), *(envs.step(np.zeros((2, 1))).next_obs for _ in range(21))]
            seen.append(np.stack(steps))
    assert seen[0].dtype == np.uint8 and seen[0].shape == (22, 2, 144)
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen[0], seen[2])
    with Environments(lambda: gym.wrappers.FrameStackObservation(Gauge(), 3), 1, episode_length=20) as envs:
        assert envs.images == ((3, 12, 12, 1),)


def test_numbers_beside_an_image_must_be_finite():
    class Broken(Gauge):
        def _draw(self):
            return super()._draw() | {"sign": np.array([np.nan], np.float32)}

    with Environments(partial(Broken, in_parts=True), 2, episode_length=20) as envs:  # noqa: SIM117
        with pytest.raises(ValueError, match="non-finite observation"):
            envs.reset([1, 2])


@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        ((64, 48, 3), (64, 48, 3)),
        ((4, 84, 84), (84, 84, 4)),  # Gymnasium's FrameStackObservation of grey images
        ((4, 20, 30, 3), (20, 30, 12)),  # and of coloured ones
    ],
)
def test_height_and_width_are_found_in_every_order_of_axes(shape, seen):
    order = encoder.channels_last(shape)
    moved = [shape[axis] for axis in order]
    assert (*moved[:2], int(np.prod(moved[2:]))) == seen
    weights = encoder.encoder_init(jax.random.key(0), shape)
    assert weights[0][0].shape[0] == 9 * seen[2] and weights[-1][0].shape[1] == encoder.FEATURES
    last = encoder.encode(weights, jnp.ones((2, *shape), jnp.uint8))
    assert last.shape == (2, encoder.FEATURES)


@pytest.mark.parametrize(
    ("images", "numbers", "algorithm"),
    [(((9, 11, 3),), 0, "cvpo"), (((4, 16, 12), (12, 9, 1)), 3, "cvpo"), (((2, 9, 17, 3),), 1, "ppo-lag")],
)
def test_the_policy_acts_alike_with_and_without_jax(images, numbers, algorithm):
    pixels = sum(int(np.prod(shape)) for shape in images)
    spec = Spec(pixels + 4 * numbers, 2, False, (1.0,), 10, images=images)
    built = build(algorithm, make_config(algorithm), spec)
    state = built.init(jax.random.key(1))
    rng = np.random.default_rng(0)
    bytes_ = rng.integers(0, 256, (5, pixels), np.uint8)
    floats = rng.standard_normal((5, numbers)).astype(np.float32)
    obs = np.concatenate([bytes_, floats.view(np.uint8)], axis=1)
    batch = jnp.asarray(np.tile(obs, (2, 1, 1)))  # as a rollout [2, 5, D], so that the numbers are scaled
    moments = encoder.merge(state[0].numbers, jnp.asarray(floats))
    params = built.policy((state[0]._replace(numbers=moments), state[1]))
    expected, _ = built.act(params, jnp.asarray(obs), None)
    form, arrays = built.portable(params)
    about = {"action": {"low": [-1, -1], "high": [1, 1], "shape": [2], "dtype": "float32"}}
    actor = Actor(json.loads(json.dumps(form | about)), {name: np.asarray(array) for name, array in arrays.items()})
    np.testing.assert_allclose(actor(obs), np.clip(expected, -1, 1), atol=2e-5)
    np.testing.assert_allclose(actor(obs[0]), np.clip(expected[0], -1, 1), atol=2e-5)
    # a rollout's observations are encoded in pieces
    many, _ = built.act(params, jnp.tile(batch[0], (60, 1)), None)
    np.testing.assert_allclose(many[:5], expected, atol=2e-5)


@pytest.mark.parametrize("algorithm", ["ppo-lag", pytest.param("cvpo", marks=pytest.mark.slow)])
def test_a_run_with_images_and_numbers_is_resumed_evaluated_and_exported(algorithm, tmp_path):
    config = TINY | ({"batch_size": 16, "particles": 4} if algorithm == "cvpo" else {})
    env = partial(Gauge, in_parts=True)

    def train(path, steps, **options):
        return cvpo.train(
            env, algorithm, steps=steps, cost_limit=1.0, run_dir=path, quiet=True, config=config, **options
        )

    whole = train(tmp_path / "whole", 160)
    assert read_config(whole.path)["spec"]["images"] == [[12, 12, 1]] and "encoder/loss" in whole.metrics()[-1]
    train(tmp_path / "stopped", 80)
    resumed = train(tmp_path / "stopped", 160, resume=True)
    assert untimed(resumed.path) == untimed(whole.path)
    # a policy sees what the environment gives, one observation or a batch
    policy, made = whole.policy(), env()
    obs, _ = made.reset(seed=1)
    batch = {key: np.stack([value, value]) for key, value in obs.items()}
    np.testing.assert_allclose(policy(batch)[1], policy(obs), atol=1e-6)
    assert cvpo.evaluate(whole.path, env, episodes=2)["episodes"] == 2
    folder = cvpo.export(whole.path, tmp_path / "export")
    assert "uint8" in (folder / "README.txt").read_text()
    for form in ("c", "onnx"):
        with pytest.raises(BadValue, match=f"sees images is exported as numpy only, got format '{form}'"):
            cvpo.export(whole.path, tmp_path / "other", form)


@pytest.mark.slow
def test_a_run_starts_from_another_with_images_and_its_replay(tmp_path):
    config = TINY | {"batch_size": 16, "particles": 4}
    settings = {"cost_limit": 1.0, "quiet": True, "config": config}
    first = cvpo.train(Gauge, steps=40, run_dir=tmp_path / "first", **settings)
    second = cvpo.train(
        Gauge, steps=40, run_dir=tmp_path / "second", init_from=first.path, init_replay=True, **settings
    )
    assert len(second.metrics()) == 1
    with pytest.raises(BadValue, match=r"observations: 144, here: 1"):
        cvpo.train(Tracking, steps=40, run_dir=tmp_path / "third", init_from=first.path, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("in_parts", [False, True])
def test_learning_from_images_within_a_limit(in_parts, tmp_path):
    make = partial(Gauge, in_parts=in_parts)
    env = make()
    config = {"episode_length": 20, "hidden": (64, 64), "eval_episodes": 50, "eval_every": 1000}
    run = cvpo.train(make, steps=6_000, cost_limit=env.limit, run_dir=tmp_path, quiet=True, config=config)
    last = run.metrics()[-1]
    assert last["eval/reward"] >= env.blind_reward + 0.7 * (env.best_reward - env.blind_reward)
    assert last["train/cost"] <= 1.3 * env.limit


@pytest.mark.slow
def test_learning_from_images_on_policy(tmp_path):
    config = {"episode_length": 20, "hidden": (64, 64), "eval_episodes": 50, "minibatch_size": 200}
    run = cvpo.train(Gauge, "ppo", steps=20_000, run_dir=tmp_path, quiet=True, config=config)
    assert run.metrics()[-1]["eval/reward"] >= 18.5  # 20 if every action is the signal
