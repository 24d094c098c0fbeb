"""Named settings of each method: `default`; `paper`, the paper's own table of hyper-parameters; and `reference`, where
the code that was published with the paper differs from that table (CVPO and the off-policy baselines)."""

from __future__ import annotations

from typing import Any

from cvpo.algorithms.config import LoopConfig, with_overrides
from cvpo.algorithms.registry import lookup
from cvpo.errors import BadValue, did_you_mean

Settings = dict[str, Any]

# The paper's table (appendix), left half: what all off-policy methods have in common.
_PAPER_CRITICS: Settings = {
    "hidden": (256, 256), "batch_size": 300, "update_ratio": 0.125, "critic_learning_rate": 1e-3, "polyak": 0.995,
    "n_step": 1, "retrace": False, "gamma": 0.99, "cost_gamma": 0.99, "replay_capacity": 1_000_000,
    "envs": 20, "eval_every": 1, "normalize_observations": False, "layer_norm": False, "noise_color": 0.0,
    "early_update_factor": 1.0, "policy_steady_updates": None, "noiseless_share": 0.0,
}  # fmt: skip
# Right half: what CVPO has of its own.
_PAPER_CVPO: Settings = _PAPER_CRITICS | {
    "particles": 32, "mstep_iterations": 6, "policy_learning_rate": 2e-3, "cost_signal": "critic",
    "kl_estep": 0.1, "kl_mean": 1e-3, "kl_scale": 1e-4, "max_dual": 1e4, "dual_batches": 1, "min_scale": 1e-3,
    "policy_polyak": 0.995,
}  # fmt: skip
_PAPER_LAGRANGIAN: Settings = _PAPER_CRITICS | {"cost_signal": "critic"}
# The published code, github.com/liuzuxin/cvpo-safe-rl, in the units here. Its likelihood is a mean over 32 particles
# where ours sums over them, so its caps of 0.1 and 10 are 3.2 and 320.
_REFERENCE_CVPO: Settings = _PAPER_CVPO | {
    "replay_capacity": 80_000, "kl_scale": 1e-3, "max_dual": 3.2, "max_dual_scale": 320.0, "max_gradient_norm": 0.01,
}  # fmt: skip
# Its gains, 0.1, 0.003 and 0.001, act on the critic's excess over a threshold near 2.5 (a limit of 10 in 400 steps),
# here on the excess as a fraction of the limit; the integral gain is summed over the updates of an epoch.
_REFERENCE_CRITICS: Settings = _PAPER_CRITICS | {"replay_capacity": 20_000, "random_epochs": 0}
_REFERENCE_LAGRANGIAN: Settings = _PAPER_LAGRANGIAN | _REFERENCE_CRITICS | {
    "multiplier_kp": 0.25, "multiplier_ki": 0.78, "multiplier_kd": 2.5e-3, "multiplier_smoothing": 0.0,
    "safety_margin": 0.0, "normalize_loss": False,
}  # fmt: skip
_REFERENCE_SAC: Settings = {"automatic_temperature": False, "temperature": 0.0085}
_REFERENCE_DDPG: Settings = {"policy_learning_rate": 3e-4}
# As far as the table is about on-policy methods.
_PAPER_ON_POLICY: Settings = {
    "hidden": (256, 256), "activation": "relu", "gamma": 0.99, "minibatch_size": 300, "envs": 20,
    "value_learning_rate": 1e-3, "normalize_observations": False, "eval_every": 1,
}  # fmt: skip

PRESETS: dict[str, dict[str, Settings]] = {
    "cvpo": {"default": {}, "paper": _PAPER_CVPO, "reference": _REFERENCE_CVPO},
    **{
        name + suffix: {"default": {}, "paper": paper, "reference": reference | own}
        for suffix, paper, reference in (
            ("", _PAPER_CRITICS, _REFERENCE_CRITICS),
            ("-lag", _PAPER_LAGRANGIAN, _REFERENCE_LAGRANGIAN),
        )
        for name, own in (("sac", _REFERENCE_SAC), ("td3", {}), ("ddpg", _REFERENCE_DDPG))
    },
    **{name: {"default": {}, "paper": _PAPER_ON_POLICY} for name in ("trpo", "trpo-lag", "ppo", "ppo-lag", "cpo")},
}


def make_config(name: str, preset: str | None = None, overrides: Settings | None = None) -> LoopConfig:
    """The settings of an algorithm: its defaults, a preset over them, and overrides over all."""
    entry = lookup(name)
    preset = preset or "default"
    if preset not in PRESETS[name]:
        raise BadValue(f"{name} has no preset {preset!r}{did_you_mean(preset, PRESETS[name])}")
    return with_overrides(name, entry.config(), PRESETS[name][preset] | (overrides or {}))
