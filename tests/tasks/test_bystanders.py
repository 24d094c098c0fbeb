"""Movable bodies that nothing disturbs are left out of the simulation, all or all but one: the outcome is the same."""

import numpy as np
import pytest
from driving import drive_to

from cvpo.tasks.bystanders import Bystanders, gremlin_path
from cvpo.tasks.vector_env import TaskVectorEnv

MOVABLE = {
    "SafetyPointGoal2": "vases",
    "SafetyCarGoal1": "vases",
    "SafetyPointButton1": "gremlins",
    "SafetyCarButton1": "gremlins",
    "SafetyCarPush1": "push_box",
}


@pytest.mark.parametrize("task", MOVABLE)
def test_a_step_without_them_is_the_step_with_them(task, monkeypatch):
    """One step at a time, on courses that lead to the movable bodies and past them, against the whole simulation."""
    count, kind = 8, MOVABLE[task]
    env, whole = TaskVectorEnv(task, count), TaskVectorEnv(task, count)
    env.reset(seed=2)
    monkeypatch.setattr(whole.world._bystanders, "undisturbed", lambda: np.zeros(count, dtype=bool))
    monkeypatch.setattr(whole.world._bystanders, "single", lambda undisturbed: np.full(count, -1))
    left_out = np.zeros(2)
    singles = 0
    robot = env.world.robot.velocities
    for step in range(120):
        undisturbed = env.world._bystanders.undisturbed()
        single = env.world._bystanders.single(undisturbed) >= 0
        targets = env.world.objects[:, env.world.task.slice_of(kind)]
        actions = np.array(
            [drive_to(env.world, targets[i, (i + step // 60) % targets.shape[1]], i) for i in range(count)]
        )
        whole.set_state(env.get_state())
        obs, reward, _, _, infos = env.step(actions)
        expected_obs, expected_reward, _, _, expected_infos = whole.step(actions)
        left_out += undisturbed.sum(), (~undisturbed).sum()
        singles += single.sum()
        alone = np.flatnonzero(undisturbed | single)
        # the turn servo and the Car's wheels make more of a difference in the last digit than the bodies do
        states, expected = env.world.physics.state[alone], whole.world.physics.state[alone]
        np.testing.assert_allclose(states[:, :3], expected[:, :3], atol=1e-7)
        np.testing.assert_allclose(
            env.world.movable_qpos(kind)[alone], whole.world.movable_qpos(kind)[alone], atol=2e-6
        )
        # a body that the robot pushes is found by the solver to its own tolerance
        for some, tolerance in ((undisturbed, 2e-5), (single, 2e-4)):
            np.testing.assert_allclose(
                env.world.movable_qvel(kind)[some], whole.world.movable_qvel(kind)[some], atol=tolerance
            )
        np.testing.assert_allclose(reward[alone], expected_reward[alone], atol=1e-6)
        np.testing.assert_allclose(obs[alone, robot:], expected_obs[alone, robot:], atol=1e-2)
        for key in infos:
            np.testing.assert_array_equal(infos[key][alone], expected_infos[key][alone])
    # all happened
    assert left_out.min() > 30
    assert singles > 30 or env.world.task.alike_movable == 1


def test_a_gremlins_path_is_a_circle_clockwise_that_trails_its_target():
    env = TaskVectorEnv("SafetyPointButton1", 1)
    gremlins = env.world.task.of("gremlins")
    path = gremlin_path(gremlins.__class__("gremlins", 1), 0.002, 10, 400)
    np.testing.assert_allclose(path[0], [0, 0, 0.1, 0, 0, 0])
    angle = np.unwrap(np.arctan2(path[100:, 0], path[100:, 1]))
    time = 0.02 * np.arange(100, 401)
    np.testing.assert_allclose(np.polyfit(time, angle, 1)[0], 1.0, atol=1e-3)
    np.testing.assert_allclose(np.mean(time - angle), 0.09, atol=0.005)
    np.testing.assert_allclose(path[100:, 2], 0.19956, atol=1e-5)


def waited(task: str, num_envs: int, steps: int) -> TaskVectorEnv:
    """The task after so many steps of a robot that does nothing."""
    env = TaskVectorEnv(task, num_envs)
    env.reset(seed=0)
    for _ in range(steps):
        env.step(np.zeros((num_envs, 2)))
    return env


def test_a_button_in_a_gremlins_way_is_noticed():
    # until those are back on their path that the floor has kicked
    env = waited("SafetyPointButton1", 2, 60)
    world = env.world
    assert world._bystanders.undisturbed().all()
    state = env.get_state()
    buttons = world.task.slice_of("buttons")
    state["objects"][1, buttons][0] = world.gremlin_homes[1, 0] + (0.4, 0.0)
    env.set_state(state)
    assert world._bystanders.undisturbed().tolist() == [True, False]


def test_a_moving_vase_and_a_near_robot_are_noticed():
    world = waited("SafetyPointGoal2", 3, 30).world
    calm = world._bystanders.undisturbed()
    assert calm.all()
    world.physics.qvel[0, world._movable["vases"][1].start] = 1e-4
    world.physics.qpos[1, :2] = world.objects[1, world.task.slice_of("vases")][4] + (0.3, 0.0)
    world._measure()
    assert world._bystanders.undisturbed().tolist() == [False, False, True]


def test_a_vase_beside_the_one_that_moves_is_simulated_too():
    world = waited("SafetyPointGoal2", 2, 30).world
    vases = world.movable_qpos("vases").copy()
    vases[1, 1, :2] = vases[1, 0, :2] + (0.25, 0.0)
    world.set_movable("vases", world.envs, vases, world.movable_qvel("vases"))
    world.physics.qvel[:, world._movable["vases"][1].start] = 1e-4
    world._measure()
    undisturbed = world._bystanders.undisturbed()
    assert not undisturbed.any()
    assert world._bystanders.single(undisturbed).tolist() == [0, -1]


def test_a_task_without_movable_bodies_has_nothing_to_leave_out():
    env = TaskVectorEnv("SafetyPointCircle1", 2)
    assert isinstance(env.world._bystanders, Bystanders)
    assert env.world._bystanders.undisturbed().all()
