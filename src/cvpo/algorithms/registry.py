"""The registry: every algorithm by name. A new one is a file here and a line in ALGORITHMS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from cvpo.algorithms.base import Algorithm, Spec
from cvpo.algorithms.config import LoopConfig
from cvpo.algorithms.cvpo import learner as cvpo
from cvpo.algorithms.cvpo.config import Config as CVPOConfig
from cvpo.algorithms.offpolicy import sac, td3
from cvpo.algorithms.onpolicy import cpo, ppo, trpo
from cvpo.algorithms.shared.encoder import with_encoder
from cvpo.algorithms.shared.normalize import with_normalizer
from cvpo.errors import BadValue, did_you_mean


class Entry(NamedTuple):
    config: type[LoopConfig]
    make: Callable[[Any, Spec], Algorithm]
    constrained: bool  # needs a cost limit
    summary: str


ALGORITHMS: dict[str, Entry] = {
    "cvpo": Entry(CVPOConfig, cvpo.make, True, "constrained variational policy optimization"),
    "sac": Entry(sac.Config, sac.make, False, "soft actor-critic"),
    "sac-lag": Entry(sac.LagConfig, sac.make, True, "SAC with PID Lagrange multipliers"),
    "td3": Entry(td3.Config, td3.make, False, "twin delayed deterministic policy gradient"),
    "td3-lag": Entry(td3.LagConfig, td3.make, True, "TD3 with PID Lagrange multipliers"),
    "ddpg": Entry(td3.DDPGConfig, td3.make, False, "deep deterministic policy gradient"),
    "ddpg-lag": Entry(td3.DDPGLagConfig, td3.make, True, "DDPG with PID Lagrange multipliers"),
    "trpo": Entry(trpo.Config, trpo.make, False, "trust region policy optimization"),
    "trpo-lag": Entry(trpo.LagConfig, trpo.make, True, "TRPO with PID Lagrange multipliers"),
    "ppo": Entry(ppo.Config, ppo.make, False, "proximal policy optimization"),
    "ppo-lag": Entry(ppo.LagConfig, ppo.make, True, "PPO with PID Lagrange multipliers"),
    "cpo": Entry(cpo.Config, cpo.make, True, "constrained policy optimization"),
}


def build(name: str, config: LoopConfig, spec: Spec) -> Algorithm:
    """An algorithm for an environment; images are encoded, and observations scaled if the settings say so."""
    make = partial(lookup(name).make, config)
    if spec.images:
        return with_encoder(make, spec, config.normalize_observations, whole_rollouts=not config.off_policy)
    algorithm = make(spec)
    return with_normalizer(algorithm, spec) if config.normalize_observations else algorithm


def lookup(name: str) -> Entry:
    if name not in ALGORITHMS:
        raise BadValue(f"no algorithm {name!r}{did_you_mean(name, ALGORITHMS)}")
    return ALGORITHMS[name]
