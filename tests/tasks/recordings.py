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


def at_recorded_states(task, recording, end="before"):
    """An environment for each recorded step, in the state "before" or "after" it.

    The recordings do not say which button is the goal after a press.
    """
    count, later = len(recording["action"]), end == "after"
    env = TaskVectorEnv(task, count)
    state, world = env.get_state(), env.world
    qpos, qvel = in_the_world(task, recording, end)
    time = recording["time"] + later * world.step_seconds
    state["physics"][:] = np.concatenate([time[:, None], qpos, qvel], axis=1)
    state["steps"][:] = np.round(time / world.step_seconds)
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
        state["objects"][:, world.goal_index] = recording[f"goal_{end}"][:, :2]
    if "goal_button" in recording:
        state["goal"][:] = recording["goal_button"]
        state["cooldown"][:] = np.maximum(recording["button_timer"] - later, 0)
    env.set_state(state)
    return env


def runners_at_recorded_states(task, recording, end="before", place=None):
    """The same for a velocity task; `place` [n, 2] is what the next speed is measured from, by default as recorded."""
    env = TaskVectorEnv(task, len(recording["action"]))
    state = env.get_state()
    time = recording["time"] + (end == "after") * env.world.step_seconds
    state["physics"][:] = np.concatenate([time[:, None], recording[f"qpos_{end}"], recording[f"qvel_{end}"]], axis=1)
    state["place"][:] = recording["place_before"] if place is None else place
    env.set_state(state)
    return env
