"""Named settings of each method: `default`, and `paper` for the paper's own table of hyper-parameters."""

from __future__ import annotations

from typing import Any

from cvpo.algorithms.config import LoopConfig, with_overrides
from cvpo.algorithms.registry import lookup
from cvpo.errors import BadValue, did_you_mean

Settings = dict[str, Any]

# The paper's table (appendix), left half: what all off-policy methods have in common.
_PAPER_CRITICS: Settings = {
    "hidden": (256, 256), "batch_size": 300, "update_ratio": 0.125, "critic_learning_rate": 1e-3, "polyak": 0.995,
    "n_step": 1, "retrace": False, "gamma": 0.99, "replay_capacity": 1_000_000, "envs": 20, "eval_every": 1,
    "normalize_observations": False, "layer_norm": False,
}  # fmt: skip
# Right half: what CVPO has of its own.
_PAPER_CVPO: Settings = _PAPER_CRITICS | {
    "policy_states": 300, "particles": 32, "mstep_iterations": 6, "policy_learning_rate": 2e-3, "cost_signal": "critic",
    "kl_estep": 0.1, "kl_mean": 1e-3, "kl_scale": 1e-4, "max_dual": 1e4, "dual_batches": 1, "min_scale": 1e-3,
    "policy_polyak": 0.995,
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


def make_config(name: str, preset: str | None = None, overrides: Settings | None = None) -> LoopConfig:
    """The settings of an algorithm: its defaults, a preset over them, and overrides over all."""
    entry = lookup(name)
    preset = preset or "default"
    if preset not in PRESETS[name]:
        raise BadValue(f"{name} has no preset {preset!r}{did_you_mean(preset, PRESETS[name])}")
    return with_overrides(name, entry.config(), PRESETS[name][preset] | (overrides or {}))
