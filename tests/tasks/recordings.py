"""Recordings of Safety-Gymnasium 1.0.0 (mujoco 2.3.3), put into the environments of this project.

tests/data/README.md says what the files hold.
"""

from pathlib import Path

import numpy as np

from cvpo.tasks.vector_env import TaskVectorEnv

DATA = Path(__file__).parents[1] / "data" / "safety_gym"
NAVIGATION = sorted(path.stem for path in DATA.glob("*-v0.npz"))
VELOCITY = sorted(path.stem for path in DATA.glob("*-v1.npz"))


def load(task):
    with np.load(DATA / f"{task}.npz", allow_pickle=False) as file:
        return dict(file)


def turned(places, angle):
    """Vectors [n, 2], turned by the angles [n]."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([cos * places[:, 0] - sin * places[:, 1], sin * places[:, 0] + cos * places[:, 1]], axis=1)


def in_the_world(task, recording, end):
    """qpos and qvel "before" or "after" the recorded steps; the Point's are relative to its start there."""
    qpos, qvel = recording[f"qpos_{end}"].copy(), recording[f"qvel_{end}"].copy()
    if task.startswith("SafetyPoint"):
        start = recording["traj_agent"][recording["traj"]]
        qpos[:, :2] = start[:, :2] + turned(qpos[:, :2], start[:, 2])
        qpos[:, 2] += start[:, 2]
        qvel[:, :2] = turned(qvel[:, :2], start[:, 2])
    return qpos, qvel


def at_recorded_states(task, recording):
    """An environment for each recorded step, in the state before it."""
    count = len(recording["action"])
    env = TaskVectorEnv(task, count)
    state, world = env.get_state(), env.world
    qpos, qvel = in_the_world(task, recording, "before")
    state["physics"][:] = np.concatenate([recording["time"][:, None], qpos, qvel], axis=1)
    state["steps"][:] = np.round(recording["time"] / world.step_seconds)
    for objects in world.task.objects:
        if objects.kind in ("goal", "circle"):
            continue
        where = world.task.slice_of(objects.kind)
        places = recording[f"traj_{objects.kind}"][recording["traj"]].reshape(count, -1, 3)
        state["objects"][:, where] = places[..., :2]
        if objects.kind in world._mocap_of:
            state["turns"][:, world._mocap_of[objects.kind]] = places[..., 2]
        if objects.kind == "gremlins":
            state["gremlin_homes"][:] = places[..., :2]
    if "goal_before" in recording:
        state["objects"][:, world.goal_index] = recording["goal_before"][:, :2]
    if "goal_button" in recording:
        state["goal"][:], state["cooldown"][:] = recording["goal_button"], recording["button_timer"]
    env.set_state(state)
    return env


def runners_at_recorded_states(task, recording):
    """The same for a velocity task."""
    env = TaskVectorEnv(task, len(recording["action"]))
    state = env.get_state()
    parts = recording["time"][:, None], recording["qpos_before"], recording["qvel_before"]
    state["physics"][:] = np.concatenate(parts, axis=1)
    state["place"][:] = recording["place_before"]
    env.set_state(state)
    return env
