"""Named settings of each method: `default`, and `paper` for the paper's own table of hyper-parameters."""

from __future__ import annotations

from typing import Any

from cvpo.algorithms.config import LoopConfig, with_overrides
from cvpo.algorithms.registry import lookup
from cvpo.errors import BadValue, did_you_mean
from cvpo.tasks.table import find_task

Settings = dict[str, Any]

# The paper's table (appendix), left half: what all off-policy methods have in common.
_PAPER_CRITICS: Settings = {
    "hidden": (256, 256), "batch_size": 300, "update_ratio": 0.125, "critic_learning_rate": 1e-3, "polyak": 0.995,
    "n_step": 1, "gamma": 0.99, "replay_capacity": 1_000_000, "envs": 20, "eval_every": 1,
    "normalize_observations": False, "layer_norm": False,
}  # fmt: skip
# Right half: what CVPO has of its own.
_PAPER_CVPO: Settings = _PAPER_CRITICS | {
    "policy_states": 300, "particles": 32, "mstep_iterations": 6, "policy_learning_rate": 2e-3, "cost_signal": "critic",
    "kl_estep": 0.1, "kl_mean": 1e-3, "kl_scale": 1e-4, "max_dual": 1e4, "policy_polyak": 0.995,
}  # fmt: skip
_PAPER_LAGRANGIAN: Settings = _PAPER_CRITICS | {"cost_signal": "critic"}
# As far as the table is about on-policy methods.
_PAPER_ON_POLICY: Settings = {
    "hidden": (256, 256), "activation": "relu", "gamma": 0.99, "minibatch_size": 300, "envs": 20,
    "value_learning_rate": 1e-3, "normalize_observations": False, "eval_every": 1,
}  # fmt: skip

PRESETS: dict[str, dict[str, Settings]] = {
    "cvpo": {"default": {}, "paper": _PAPER_CVPO},
    **{name: {"default": {}, "paper": _PAPER_CRITICS} for name in ("sac", "td3", "ddpg")},
    **{name: {"default": {}, "paper": _PAPER_LAGRANGIAN} for name in ("sac-lag", "td3-lag", "ddpg-lag")},
    **{name: {"default": {}, "paper": _PAPER_ON_POLICY} for name in ("trpo", "trpo-lag", "ppo", "ppo-lag", "cpo")},
}

# On Car-Circle a path that cuts through half of the circle is a local optimum: a slightly wider cut takes longer to be
# back where the rewards are high. A shorter horizon looks at the reward nearby, which grows outwards everywhere.
# Its policies end with little noise, of which the trust region is measured in: smaller gradient steps with a faster
# average, which learn sooner elsewhere, leave it time and again here.
# On Car-Goal an action changes little of what follows, and critics must see many episodes to tell actions apart: whole
# traces let them learn from old ones.
# On Car-Button policies that never acted without noise get stuck without it, at ten times the cost. One environment in
# five shows them; the safety margin is for what remains of the difference.
_SHORT_HORIZON: Settings = {"gamma": 0.97}
_FIRM: Settings = {"multiplier_kp": 0.05, "multiplier_ki": 0.01}
OF_TASKS: dict[str, dict[str, Settings]] = {
    "cvpo": {
        "Car-Circle": {"gamma": 0.97, "retrace": True, "policy_learning_rate": 1e-3, "policy_polyak": 0.98},
        "Car-Goal": {"retrace": True, "cut_traces": False, "retrace_lambda": 0.8, "replay_capacity": 200_000},
        "Car-Button": {"noiseless_envs": 1, "safety_margin": 0.5},
    },
    **{name: {"Car-Circle": _SHORT_HORIZON} for name in ("sac", "td3", "ddpg")},
    **{name: {"Car-Circle": _SHORT_HORIZON | _FIRM} for name in ("sac-lag", "td3-lag", "ddpg-lag")},
}


def make_config(
    name: str, preset: str | None = None, overrides: Settings | None = None, env: object = None
) -> LoopConfig:
    """The settings of an algorithm: its defaults, a preset over them, what the defaults say of `env` if that is a
    task's name or Gymnasium id, and overrides over all."""
    entry = lookup(name)
    preset = preset or "default"
    if preset not in PRESETS[name]:
        raise BadValue(f"{name} has no preset {preset!r}{did_you_mean(preset, PRESETS[name])}")
    task = find_task(env) if preset == "default" else None
    of_task = OF_TASKS.get(name, {}).get(task.name, {}) if task else {}
    return with_overrides(name, entry.config(), PRESETS[name][preset] | of_task | (overrides or {}))
