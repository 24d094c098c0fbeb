"""Scripted drivers for the tests: they see the world, not the observation."""

import numpy as np


def drive_to(world, target, env=0):
    """An action [2] that takes the robot of a Goal or Button world towards `target` (x, y)."""
    x, y, heading = world.pose(env)
    error = np.arctan2(target[1] - y, target[0] - x) - heading
    error = (error + np.pi) % (2 * np.pi) - np.pi
    yaw_rate = world.physics.qvel[env, 2 if world.robot.senses == 12 else 5]
    turn = np.clip(2.0 * error - 0.5 * yaw_rate, -1, 1)
    ahead = max(0.0, np.cos(error)) ** 3
    if world.robot.senses == 12:
        return np.array([0.05 * ahead, turn])
    # Safety Gym's Car turns left by its first wheel
    turn = -turn if world.robot.model == "safety_car.xml" else turn
    # the wheels' torque saturates at 0.02, and half of it spins them
    return 0.006 * np.array([ahead - turn, ahead + turn])


def hazards(world):
    """[N, hazards, 2] where they are."""
    return world.objects[:, world.task.slice_of("hazards")]


def place(env, x, y, heading, index=0):
    """Put the robot of a vector environment's Goal or Button world somewhere, at rest."""
    world = env.world
    world.physics.rest(np.array([index]))
    pose = world.physics.qpos[index : index + 1]
    world.robot.place(pose, np.array([[x, y]]), np.array([heading - world.robot.forward]))
    env.set_state(env.get_state())
