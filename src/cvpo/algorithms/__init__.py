"""The registry: every algorithm by name. A new one is a file here and a line in ALGORITHMS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cvpo.algorithms import cpo, cvpo, ppo, sac, td3, trpo
from cvpo.config import LoopConfig, did_you_mean, with_overrides
from cvpo.envs.tasks import find_task
from cvpo.types import Algorithm, Spec


class Entry(NamedTuple):
    config: type[LoopConfig]
    make: Callable[[Any, Spec], Algorithm]
    presets: dict[str, dict[str, Any]]
    constrained: bool  # needs a cost limit
    summary: str


ALGORITHMS: dict[str, Entry] = {
    "cvpo": Entry(cvpo.Config, cvpo.make, cvpo.PRESETS, True, "constrained variational policy optimization"),
    "sac": Entry(sac.Config, sac.make, sac.PRESETS, False, "soft actor-critic"),
    "sac-lag": Entry(sac.LagConfig, sac.make, sac.LAG_PRESETS, True, "SAC with PID Lagrange multipliers"),
    "td3": Entry(td3.Config, td3.make, td3.PRESETS, False, "twin delayed deterministic policy gradient"),
    "td3-lag": Entry(td3.LagConfig, td3.make, td3.LAG_PRESETS, True, "TD3 with PID Lagrange multipliers"),
    "ddpg": Entry(td3.DDPGConfig, td3.make, td3.PRESETS, False, "deep deterministic policy gradient"),
    "ddpg-lag": Entry(td3.DDPGLagConfig, td3.make, td3.LAG_PRESETS, True, "DDPG with PID Lagrange multipliers"),
    "trpo": Entry(trpo.Config, trpo.make, trpo.PRESETS, False, "trust region policy optimization"),
    "trpo-lag": Entry(trpo.LagConfig, trpo.make, trpo.PRESETS, True, "TRPO with PID Lagrange multipliers"),
    "ppo": Entry(ppo.Config, ppo.make, ppo.PRESETS, False, "proximal policy optimization"),
    "ppo-lag": Entry(ppo.LagConfig, ppo.make, ppo.PRESETS, True, "PPO with PID Lagrange multipliers"),
    "cpo": Entry(cpo.Config, cpo.make, cpo.PRESETS, True, "constrained policy optimization"),
}


def lookup(name: str) -> Entry:
    if name not in ALGORITHMS:
        raise ValueError(f"no algorithm {name!r}{did_you_mean(name, ALGORITHMS)}")
    return ALGORITHMS[name]


def make_config(
    name: str, preset: str | None = None, overrides: dict[str, Any] | None = None, env: object = None
) -> LoopConfig:
    """The settings of an algorithm: its defaults, a preset over them, what the preset says of `env` if that is a task's
    name or Gymnasium id, and overrides over all."""
    entry = lookup(name)
    preset = preset or "default"
    if preset not in entry.presets:
        raise ValueError(f"{name} has no preset {preset!r}{did_you_mean(preset, entry.presets)}")
    settings = dict(entry.presets[preset])
    of_tasks, task = settings.pop("tasks", {}), find_task(env)
    of_task = of_tasks.get(task.name, {}) if task else {}
    return with_overrides(entry.config(), settings | of_task | (overrides or {}))
