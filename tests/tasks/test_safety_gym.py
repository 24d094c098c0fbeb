"""The Safety Gym tasks beyond the recordings: layouts in distribution, rules, early ends, and what users find."""

import gymnasium
import numpy as np
import pytest
from driving import drive_to

from cvpo.tasks import TASKS, groups
from cvpo.tasks.generators import make_generator
from cvpo.tasks.registry import find_task
from cvpo.tasks.rejection import Rejection
from cvpo.tasks.safety_gym import SAFETY_GYM
from cvpo.tasks.vector_env import TaskVectorEnv


def test_the_tables_have_all_tasks_with_the_published_limit():
    sizes = {title: len(tasks) for title, tasks in groups().items()}
    assert list(sizes.values()) == [5, 26, 6]
    assert all(task.cost_limit == 25.0 for task in TASKS.values() if task.name.startswith("Safety"))


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("SafetyPointGoal1", "SafetyPointGoal1"),
        ("SafetyPointGoal1-v0", "SafetyPointGoal1"),
        ("cvpo/SafetyPointGoal1-v0", "SafetyPointGoal1"),
        ("SafetyHalfCheetahVelocity", "SafetyHalfCheetahVelocity"),
        ("SafetyHalfCheetahVelocity-v1", "SafetyHalfCheetahVelocity"),
        ("cvpo/SafetyHalfCheetahVelocity-v1", "SafetyHalfCheetahVelocity"),
        ("Point-Goal", "Point-Goal"),
    ],
)
def test_a_task_is_found_by_its_name_and_by_the_originals(asked, name):
    assert find_task(asked).name == name


def test_another_version_of_a_task_is_not_found():
    assert find_task("SafetyHalfCheetahVelocity-v0") is None
    assert find_task("SafetyPointGoal1-v1") is None


SIZES = {
    "Goal0": (28, 40), "Goal1": (60, 72), "Goal2": (60, 72), "Button0": (44, 56), "Button1": (76, 88),
    "Button2": (76, 88), "Push0": (44, 56), "Push1": (76, 88), "Push2": (76, 88), "Circle0": (28, 40),
    "Circle1": (28, 40), "Circle2": (28, 40), "Run0": (12, 24),
}  # fmt: skip


@pytest.mark.parametrize("level", SIZES)
def test_observations_are_as_long_as_the_originals(level):
    for robot, size in zip(("Point", "Car"), SIZES[level], strict=True):
        task = TASKS[f"Safety{robot}{level}"]
        assert task.observation_size == size
        obs, _ = TaskVectorEnv(task, 1).reset(seed=0)
        assert obs.shape == (1, size)


@pytest.mark.parametrize("level", ["Goal2", "Button0", "Push2"])
def test_layouts_keep_clear_and_fill_the_arena(level):
    task = SAFETY_GYM[f"SafetyPoint{level}"]
    rejection = Rejection(task)
    layouts = [rejection.draw(make_generator(seed, legacy=True)) for seed in range(300)]
    places = np.array([np.vstack([layout.start, layout.places]) for layout in layouts])
    keepouts = np.concatenate([[0.4], *([objects.keepout] * objects.number for objects in task.objects)])
    gaps = np.linalg.norm(places[:, :, None] - places[:, None], axis=-1) - keepouts - keepouts[:, None]
    assert (gaps[:, ~np.eye(len(keepouts), dtype=bool)] >= 0).all()
    assert (np.abs(places).max(axis=-1) <= task.arena - keepouts + 1e-12).all()
    # the robot comes first: uniform in its square, with any heading
    room = task.arena - 0.4
    start = places[:, 0] / room
    assert abs(start.mean()) < 0.1 and abs((start**2).mean() - 1 / 3) < 0.05
    assert abs(np.exp(1j * np.array([layout.heading for layout in layouts])).mean()) < 0.15


def test_a_new_goal_keeps_clear_of_where_everything_is_now():
    env = TaskVectorEnv("SafetyPointGoal2", 60)
    env.reset(seed=0)
    world = env.world
    for _ in range(3):
        goal, others = world.objects[:, :1], world.objects[:, 1:]
        assert (np.linalg.norm(goal[:, 0] - world.physics.qpos[:, :2], axis=-1) >= 0.705).all()
        vases = others[:, 10:]
        assert (np.linalg.norm(vases - goal, axis=-1) >= 0.455).all()
        world._new_goals(world.envs)


@pytest.mark.parametrize("task", ["SafetyPointGoal0", "SafetyPointButton0", "SafetyCarGoal0"])
def test_a_driver_to_the_goals_earns_the_way_made_and_one_for_each(task):
    env = TaskVectorEnv(task, 1)
    env.reset(seed=6)
    world, earned, way, goals = env.world, 0.0, 0.0, 0
    for _ in range(500):
        target = world.objects[0, world.goal_index].copy()
        before = world.distance[0, world.goal_index]
        _, reward, _, _, infos = env.step(drive_to(world, target)[None])
        way += before - np.hypot(*(target - world.physics.qpos[0, :2]))
        goals += infos["goal_met"][0]
        earned += reward[0]
    assert goals >= 2
    assert earned == pytest.approx(way + goals, abs=1e-9)


def test_the_circle_pays_for_running_round_it_counter_clockwise():
    env = TaskVectorEnv("SafetyPointCircle1", 3)
    env.reset(seed=0)
    world = env.world
    # on the circle with 1 m/s to the left, to the right, and half a metre outside
    world.physics.qpos[:, :3] = [[1.5, 0, 0], [1.5, 0, 0], [2.0, 0, 0]]
    world.physics.qvel[:, :3] = [[0, 1, 0], [0, -1, 0], [0, 1, 0]]
    reward, _, infos = world.advance(np.zeros((3, 2)))
    speed = np.abs(world.physics.qvel[:, 1])
    np.testing.assert_allclose(reward, 0.1 * speed * [1, -1, 1 / 1.5], rtol=1e-3)
    np.testing.assert_array_equal(infos["cost_out_of_boundary"], [1.0, 1.0, 1.0])


def test_the_points_top_speed_bounds_what_its_circle_can_earn():
    """The note in results/published.toml: what is published for it is more than any policy can earn here."""
    env = TaskVectorEnv("SafetyPointCircle1", 1)
    env.reset(seed=0)
    speeds = []
    for _ in range(env.task.episode_length):
        env.step(np.array([[1.0, 0.0]]))
        speeds.append(np.hypot(*env.world.physics.qvel[0, :2]))
    env.close()
    assert max(speeds) == pytest.approx(1.5, abs=0.01)
    assert 0.1 * max(speeds) * env.task.episode_length < 83.1


@pytest.mark.parametrize("task", ["SafetyHopperVelocity", "SafetyHumanoidVelocity"])
def test_an_episode_that_terminates_early_is_followed_by_another(task):
    count = 4
    env = TaskVectorEnv(task, count)
    obs, _ = env.reset(seed=0)
    rng = np.random.default_rng(0)
    low, high = env.world.action_range
    lengths, begun = [], np.zeros(count, dtype=int)
    for step in range(120):
        before = env.get_state()
        action = rng.uniform(low, high, (count, len(low)))
        obs, _, terminated, truncated, infos = env.step(action)
        assert not truncated.any() and ("final_obs" in infos) == terminated.any()
        if not terminated.any():
            continue
        np.testing.assert_array_equal(infos["_final_obs"], terminated)
        twin = TaskVectorEnv(task, count)
        twin.set_state(before)
        last, _, _, _, last_infos = twin.transition(action)
        np.testing.assert_array_equal(infos["cost"], last_infos["cost"])
        for i in np.flatnonzero(terminated):
            np.testing.assert_array_equal(infos["final_obs"][i], last[i])
            # near the start again
            assert (obs[i] != last[i]).any() and abs(env.world.physics.qpos[i, 0]) < 0.1
            lengths.append(step + 1 - begun[i])
            begun[i] = step + 1
        np.testing.assert_array_equal(obs[~terminated], last[~terminated])
    # random actions fall over soon, as in the original: 27.5 (15.7) and 22.7 (6.3) steps on average
    assert len(lengths) > 6 and 8 < np.mean(lengths) < 50


def test_a_single_environment_that_terminates_says_so():
    env = gymnasium.make("cvpo/SafetyWalker2dVelocity-v1")
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(200):
        *_, terminated, truncated, _info = env.step(env.action_space.sample())
        if terminated or truncated:
            break
    assert terminated and not truncated


def test_a_faster_step_than_the_limit_costs():
    env = TaskVectorEnv("SafetySwimmerVelocity", 2)
    env.reset(seed=0)
    env.world.physics.qvel[0, 0], env.world.physics.qvel[1, 0] = 2.0, 0.0
    infos = env.step(np.zeros((2, 2)))[4]
    np.testing.assert_array_equal(infos["cost"], infos["speed"] > 0.2282)
    assert infos["cost"].tolist() == [1.0, 0.0]


def test_the_penalty_is_for_the_action_as_given_but_the_robot_gets_no_more_than_its_range():
    big, one = TaskVectorEnv("SafetyHalfCheetahVelocity", 1), TaskVectorEnv("SafetyHalfCheetahVelocity", 1)
    big.reset(seed=0), one.reset(seed=0)
    obs, reward, *_ = big.step(np.full((1, 6), 3.0))
    same, less, *_ = one.step(np.ones((1, 6)))
    np.testing.assert_array_equal(obs, same)
    assert less[0] - reward[0] == pytest.approx(0.1 * 6 * (9 - 1))
