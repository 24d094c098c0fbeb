"""The robots of the velocity tasks, and their speed limits."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Runner:
    """A robot of Gymnasium's, its reward and its speed limit.

    Attributes:
      model: name of its file in the installed Gymnasium.
      observation_size, action_size: lengths of the two vectors.
      substeps: MuJoCo steps in one step.
      speed_limit: a step that is faster costs 1.
      planar: whether the speed is that in the plane; else along x.
      forward, alive, control: weights of the reward: of the speed along x, of a step, and of the actions' squares.
      noise, normal: at a reset, U(±noise) is added to the positions, and it or noise·N(0, 1) to the velocities.
      unseen: entries at the front of qpos that the observation leaves out.
      height, height_range: the entry of qpos that must stay in the range, or the episode terminates.
      tilt: the same for the absolute value of the entry after the height.
      bound: the same for the absolute value of all entries from the tilt on, and of qvel.
      seen_speed: the observation clips velocities to ± this.
      place: where the robot is: by "qpos", or where MuJoCo has its "torso" or its "mass" (the centre of it).
      inner: whether the observation has the inertias, velocities and forces of the bodies too.
      side_view: whether it is drawn from its side; else from above.
    """

    model: str
    observation_size: int
    action_size: int
    substeps: int
    speed_limit: float
    control: float
    noise: float
    planar: bool = False
    forward: float = 1.0
    alive: float = 0.0
    normal: bool = False
    unseen: int = 1
    height: int = 1
    height_range: tuple[float, float] = (-math.inf, math.inf)
    tilt: float = math.inf
    bound: float = math.inf
    seen_speed: float = math.inf
    place: str = "qpos"
    inner: bool = False
    side_view: bool = True


# Gymnasium's robots with the options of their version 4, and the speed limits of Safety-Gymnasium's version 1.
RUNNERS: dict[str, Runner] = {
    "HalfCheetah": Runner("half_cheetah.xml", 17, 6, 5, 3.2096, control=0.1, noise=0.1, normal=True),
    "Hopper": Runner(
        "hopper.xml", 11, 3, 4, 0.7402, control=1e-3, noise=5e-3, alive=1.0,
        height_range=(0.7, math.inf), tilt=0.2, bound=100.0, seen_speed=10.0,
    ),
    "Walker2d": Runner(
        "walker2d.xml", 17, 6, 4, 2.3415, control=1e-3, noise=5e-3, alive=1.0,
        height_range=(0.8, 2.0), tilt=1.0, seen_speed=10.0,
    ),
    "Swimmer": Runner("swimmer.xml", 8, 2, 4, 0.2282, control=1e-4, noise=0.1, unseen=2, side_view=False),
    "Ant": Runner(
        "ant.xml", 27, 8, 5, 2.6222, control=0.5, noise=0.1, alive=1.0, planar=True, normal=True, unseen=2,
        height=2, height_range=(0.2, 1.0), place="torso", side_view=False,
    ),
    "Humanoid": Runner(
        "humanoid.xml", 376, 17, 5, 1.4149, control=0.1, noise=0.01, forward=1.25, alive=5.0, planar=True, unseen=2,
        height=2, height_range=(1.0, 2.0), place="mass", inner=True,
    ),
}  # fmt: skip
