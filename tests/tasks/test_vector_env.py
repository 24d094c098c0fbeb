import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

import cvpo.envs  # noqa: F401  (registers the ids)
from cvpo.tasks import PAPER_TASKS, TASKS
from cvpo.tasks.vector_env import TaskVectorEnv

NAMES = list(TASKS)
# Each robot, each kind of object and each way in which an episode ends, but not each of all tasks.
SOME = [
    *PAPER_TASKS, "SafetyPointGoal2", "SafetyCarGoal1", "SafetyPointButton1", "SafetyCarButton0", "SafetyPointPush2",
    "SafetyCarCircle2", "SafetyPointRun0", "SafetySwimmerVelocity", "SafetyHopperVelocity", "SafetyHumanoidVelocity",
]  # fmt: skip


def actions(task, steps, num_envs, seed=0):
    shape = steps, num_envs, TASKS[task].action_size
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def near_the_end(env, left):
    """Skip the steps of the episodes up to the last ones."""
    env._elapsed[:] = env.task.episode_length - left


def run(env, sequence):
    """Everything that steps under `sequence` [T, N, a] return, stacked: observations, rewards, costs."""
    observations, rewards, costs = [], [], []
    for action in sequence:
        obs, reward, _, _, infos = env.step(action)
        observations.append(obs), rewards.append(reward), costs.append(infos["cost"])
    return np.stack(observations), np.stack(rewards), np.stack(costs)


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("task", TASKS.values(), ids=NAMES)
def test_gymnasium_finds_nothing_wrong(task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*infinity.*")
        check_env(gymnasium.make(task.id, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("task", TASKS.values(), ids=NAMES)
def test_make_vec_gives_the_native_environment_with_the_tables_sizes(task):
    env = gymnasium.make_vec(task.id, num_envs=3, threads=2)
    assert isinstance(env, TaskVectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    obs, _ = env.reset(seed=0)
    assert obs.shape == (3, task.observation_size) and obs.dtype == np.float32
    assert env.action_space.shape == (3, task.action_size)
    env.close()


@pytest.mark.parametrize("task", SOME)
def test_an_environment_runs_alike_alone_and_among_others_and_on_any_number_of_threads(task):
    count, steps, left = 5, 60, 25
    sequence = actions(task, steps, count)
    together = TaskVectorEnv(task, count)
    start, _ = together.reset(seed=10)
    near_the_end(together, left)
    whole = run(together, sequence)

    threaded = TaskVectorEnv(task, count, threads=3)
    assert_same([start], [threaded.reset(seed=10)[0]])
    near_the_end(threaded, left)
    assert_same(whole, run(threaded, sequence))
    threaded.close()

    for env in (0, 3):
        single = gymnasium.make(TASKS[task].id, disable_env_checker=True)
        obs, _ = single.reset(seed=10 + env)
        near_the_end(single.unwrapped.vector, left)
        np.testing.assert_array_equal(obs, start[env])
        ends = 0
        for step in range(steps):
            obs, reward, terminated, truncated, info = single.step(sequence[step, env])
            if terminated or truncated:
                obs, _ = single.reset()
                ends += 1
            np.testing.assert_array_equal(obs, whole[0][step, env])
            assert (reward, info["cost"]) == (whole[1][step, env], whole[2][step, env])
        assert ends


@pytest.mark.parametrize("task", SOME)
def test_the_same_seed_repeats_and_another_does_not(task):
    env, sequence = TaskVectorEnv(task, 2), actions(task, 20, 2)
    env.reset(seed=1)
    first = run(env, sequence)
    env.reset(seed=1)
    assert_same(first, run(env, sequence))
    env.reset(seed=[1, 2])
    assert_same(first, run(env, sequence))
    env.reset(seed=7)
    assert (run(env, sequence)[0] != first[0]).any()


ANYWHERE = {"start": "random", "layout": "random"}


@pytest.mark.parametrize(
    ("task", "options"), [*((task, {}) for task in SOME), ("Point-Goal", ANYWHERE), ("Car-Button", ANYWHERE)]
)
def test_a_saved_state_continues_exactly_in_a_fresh_environment(task, options, tmp_path):
    env = TaskVectorEnv(task, 3, **options)
    env.reset(seed=4)
    run(env, actions(task, 40, 3))
    near_the_end(env, 30)
    np.savez(tmp_path / "state.npz", **env.get_state())
    # through the end of the episodes: the generators continue, too
    rest = actions(task, 60, 3, seed=1)
    expected = run(env, rest)
    with np.load(tmp_path / "state.npz", allow_pickle=False) as saved:
        fresh = TaskVectorEnv(task, 3, **options)
        fresh.set_state(dict(saved))
    assert_same(expected, run(fresh, rest))


def test_a_state_of_another_number_of_environments_is_refused():
    env = TaskVectorEnv("Point-Goal", 2)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="num_envs=2"):
        TaskVectorEnv("Point-Goal", 3).set_state(env.get_state())


@pytest.mark.parametrize("task", [task for task in SOME if "Velocity" not in task or "Swimmer" in task])
def test_episodes_end_by_time_and_the_last_observation_is_kept(task):
    env = TaskVectorEnv(task, 3)
    env.reset(seed=0)
    sequence = actions(task, 31, 3)
    near_the_end(env, 31)
    for step in range(30):
        _, _, terminated, truncated, infos = env.step(sequence[step])
        assert not terminated.any() and not truncated.any() and "final_obs" not in infos
        if step == 9:
            env.reset(options={"reset_mask": np.array([False, True, False])})
    before = env.get_state()
    obs, _, terminated, truncated, infos = env.step(sequence[-1])
    assert not terminated.any()
    assert truncated.tolist() == infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [True, False, True]

    twin = TaskVectorEnv(task, 3)
    twin.set_state(before)
    unbroken, _, _, _, last = twin.transition(sequence[-1])
    for i in (0, 2):
        np.testing.assert_array_equal(infos["final_obs"][i], unbroken[i])
        assert (obs[i] != unbroken[i]).any()
        assert infos["final_info"]["cost"][i] == infos["cost"][i] == last["cost"][i]
    assert infos["final_obs"][1] is None
    np.testing.assert_array_equal(obs[1], unbroken[1])


def test_a_masked_reset_leaves_the_others_alone():
    env = TaskVectorEnv("Car-Button", 3)
    env.reset(seed=0)
    obs = env.step(actions("Car-Button", 1, 3)[0])[0]
    after, _ = env.reset(seed=50, options={"reset_mask": np.array([False, True, False])})
    np.testing.assert_array_equal(after[[0, 2]], obs[[0, 2]])
    alone, _ = TaskVectorEnv("Car-Button", 1).reset(seed=51)
    np.testing.assert_array_equal(after[1], alone[0])


@pytest.mark.parametrize("task", [task for task in SOME if "Velocity" not in task])
def test_huge_actions_are_clipped(task):
    big, one = TaskVectorEnv(task, 2), TaskVectorEnv(task, 2)
    big.reset(seed=0), one.reset(seed=0)
    signs = np.sign(actions(task, 20, 2))
    assert_same(run(big, 1e9 * signs), run(one, signs))
    assert_same(run(big, np.inf * signs), run(one, signs))


@pytest.mark.parametrize("task", ["Point-Goal", "SafetyCarGoal1", "SafetyAntVelocity"])
def test_nan_actions_are_refused_by_name(task):
    env = TaskVectorEnv(task, 3)
    env.reset(seed=0)
    bad = np.zeros((3, TASKS[task].action_size))
    bad[1, 0] = np.nan
    with pytest.raises(ValueError, match=r"nan.*environment 1"):
        env.step(bad)


def test_mistakes_are_named_with_the_remedy():
    with pytest.raises(ValueError, match=r"start must be one of .* got 'anywhere'"):
        TaskVectorEnv("Point-Goal", start="anywhere")
    with pytest.raises(ValueError, match="num_envs must be at least 1, got 0"):
        TaskVectorEnv("Point-Goal", 0)
    with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
        TaskVectorEnv("Point-Goal", threads=0)
    with pytest.raises(ValueError, match=r"render_mode must be None or one of .* got 'human'"):
        TaskVectorEnv("Point-Goal", render_mode="human")
    env = TaskVectorEnv("Point-Goal", 2)
    with pytest.raises(RuntimeError, match="reset"):
        env.step(np.zeros((2, 2)))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"shape \(2, 2\), got \(2,\)"):
        env.step(np.zeros(2))
    with pytest.raises(ValueError, match="one per environment: 2, got 3"):
        env.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="reset_mask"):
        env.reset(options={"reset_mask": [True, False]})


@settings(deadline=None, max_examples=10)
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=5, max_size=20), st.integers(0, 2**31))
def test_costs_are_0_or_1_and_the_largest_of_their_parts(sequence, seed):
    env = TaskVectorEnv("Car-Button", 1)
    env.reset(seed=seed)
    for action in sequence:
        obs, reward, _, _, infos = env.step(np.array([action]))
        assert infos["cost"] == max(infos["cost_hazard"], infos["cost_button"], infos["cost_gremlin"])
        assert infos["cost"] in (0.0, 1.0)
        assert np.isfinite(obs).all() and np.isfinite(reward).all()
        assert ((obs[:, 24:] >= 0) & (obs[:, 24:] <= 1)).all()
