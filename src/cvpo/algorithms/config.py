"""Settings as frozen dataclasses: what every algorithm has, and how overrides are applied and checked."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from cvpo.algorithms.constraint import parse_constraint
from cvpo.errors import BadValue, did_you_mean

# How the command's help sorts the settings, everyday ones first.
Group = Literal["environment", "training", "critics", "policy", "cost control", "logging"]
GROUPS: tuple[Group, ...] = typing.get_args(Group)

# Steps after which the `early_update_factor` falls.
EARLY_STEPS = 10_000

# Steps of an epoch, and most environments, if `envs` says nothing. A method with a replay sees the cost of an epoch
# only after it: in longer epochs cost and policy swing, and shorter ones measure too few episodes.
EPOCH_STEPS, MOST_ENVS = 2_000, 5

V = TypeVar("V")


def setting(default: V, group: Group) -> V:
    """A field of a config: its default, and the group that the command's help shows it in."""
    return dataclasses.field(default=default, metadata={"group": group})


def grouped_fields(config: type[LoopConfig]) -> dict[Group, list[dataclasses.Field]]:
    """The fields of a config by group, both in the order of the help; groups without a field are left out."""
    fields = dataclasses.fields(config)
    groups = {group: [field for field in fields if field.metadata["group"] == group] for group in GROUPS}
    return {group: members for group, members in groups.items() if members}


@dataclass(frozen=True)
class LoopConfig:
    """Settings that every algorithm shares."""

    off_policy: ClassVar[bool] = False
    """Whether the method learns from a replay of old episodes."""

    envs: int | None = setting(20, "environment")
    """Environments that run side by side. In an epoch each of them makes the steps of one episode."""
    episode_length: int | None = setting(None, "environment")
    """Steps of an episode. Only needed if the environment states no time limit."""
    cost_keys: tuple[str, ...] = setting((), "environment")
    """Keys of `info` that hold the costs, one for each limit. If empty: info["cost"] or info["costs"]."""
    processes: bool = setting(False, "environment")
    """Run each environment in a process of its own. (The built-in tasks use threads instead.)"""
    threads: int = setting(1, "environment")
    """Threads that step the built-in tasks."""
    python: str | None = setting(None, "environment")
    """Run the environments with this Python interpreter. It needs only NumPy and the environment's own packages."""
    envs_on_ray: str | None = setting(None, "environment")
    """Run the environments as actors of the Ray cluster at this address, "auto" or host:port (extra: ray)."""
    env_timeout: float | None = setting(None, "environment")
    """Seconds to wait for an environment's answer. Default: 300 if it runs in a process, otherwise no limit."""
    hidden: tuple[int, ...] = setting((256, 256), "training")
    """Widths of the hidden layers of every network."""
    gamma: float = setting(0.99, "training")
    """Discount factor of rewards, and of costs in methods without a replay (those with one: `cost_gamma`)."""
    eval_episodes: int = setting(10, "logging")
    """Episodes in each evaluation of the deterministic policy."""
    eval_every: int = setting(4, "logging")
    """Evaluate every so many epochs, and after the last one."""
    normalize_observations: bool = setting(True, "training")
    """Scale observations by their running mean and deviation. The scale is saved with the policy."""

    def env_count(self, episode_length: int) -> int:
        """How many environments run side by side: `envs`, or what the length of episodes suggests."""
        return self.envs or max(1, min(MOST_ENVS, EPOCH_STEPS // episode_length))

    def __post_init__(self) -> None:
        require_at_least(self, 1, "eval_episodes", "eval_every", "threads")
        if self.envs is not None:
            require_at_least(self, 1, "envs")
        if self.episode_length is not None:
            require_at_least(self, 1, "episode_length")
        if self.env_timeout is not None:
            require_positive(self, "env_timeout")
        require_between(self, 0.0, 1.0, "gamma")
        if not self.hidden or min(self.hidden) < 1:
            raise BadValue(f"hidden must name at least one layer of width >= 1, got {self.hidden}")


@dataclass(frozen=True)
class OffPolicyConfig(LoopConfig):
    """Settings of the methods that learn from a replay of old episodes."""

    off_policy: ClassVar[bool] = True

    envs: int | None = setting(None, "environment")
    """Environments that run side by side. In an epoch each of them makes the steps of one episode. Keep it small: the
    policy learns from its mistakes only after the epoch. Default: as many as make 2,000 steps, from 1 to 5."""
    hidden: tuple[int, ...] = setting((128, 128), "training")
    """Widths of the hidden layers of every network."""
    batch_size: int = setting(256, "training")
    """Steps that an update of the critics learns from, and states that one of the policy does."""
    update_ratio: float = setting(0.25, "training")
    """Updates per environment step, in the long run."""
    early_update_factor: float = setting(4.0, "training")
    """How many times as many updates there are per step in the first 10,000 steps. The factor then falls in proportion
    to 1 / steps, down to 1. A beginner's steps cost most, so it pays to learn as much as possible from them."""
    replay_capacity: int = setting(1_000_000, "training")
    """Environment steps that the replay keeps, rounded down to whole epochs. It takes no more memory than the run's
    own steps. Where every episode is different, critics generalise only from many of them."""
    random_epochs: int = setting(0, "training")
    """Epochs at the start that act at random, uniformly."""
    noiseless_share: float = setting(0.5, "training")
    """Share of the episodes that act without noise once the policy comes to rest (`policy_steady_updates`), as it will
    when it is used. Their cost must be within the limit too."""
    noise_color: float = setting(0.5, "training")
    """How alike the noise of successive actions is: its power falls as 1 / frequency^noise_color. 0: independent (white
    noise); 1: pink noise. Noise that lasts shows where an action leads, which a single step hardly does."""
    policy_steady_updates: int | None = setting(25_000, "policy")
    """Updates with the full learning rate of the policy. After that it falls in proportion to 1 / updates, so that the
    policy comes to rest instead of swinging about its cost limit. None: it never falls."""
    critic_learning_rate: float = setting(1e-3, "critics")
    """Learning rate of the critics (Adam)."""
    polyak: float = setting(0.98, "critics")
    """Weight of the old target network in each averaging step: how slowly the targets follow."""
    n_step: int = setting(8, "critics")
    """Steps that a critic's target sums before it bootstraps. With `retrace`: steps in a sequence."""
    retrace: bool = setting(True, "critics")
    """Learn from every step of a sequence, and correct it by Retrace(λ) for what the policy would do now."""

    @property
    def sequences(self) -> int:
        """Rows of a batch: a sequence counts for all its steps if all of them are learned from."""
        return self.batch_size // self.n_step if self.retrace else self.batch_size

    @property
    def learned_states(self) -> int:
        """Steps of the critics' batch that are learned from; the policy sees as many states."""
        return self.sequences * (self.n_step if self.retrace else 1)

    def policy_steady_steps(self, steps_per_update: float = 1.0) -> float | None:
        """`policy_steady_updates` in gradient steps of the policy."""
        return None if self.policy_steady_updates is None else self.policy_steady_updates * steps_per_update

    def updates_per_epoch(self, episode_length: int) -> float:
        """In the long run."""
        return episode_length * self.env_count(episode_length) * self.update_ratio

    def noiseless(self, epoch: int, episode_length: int) -> np.ndarray:
        """Which of the environments [N] act without noise in an epoch: evenly spread over all episodes."""
        envs = self.env_count(episode_length)
        if self.policy_steady_updates is None:
            return np.zeros(envs, bool)
        at_rest = self.updates_before(epoch * envs * episode_length) >= self.policy_steady_updates
        before = np.floor((epoch * envs + np.arange(envs + 1)) * self.noiseless_share)
        return at_rest & (np.diff(before) > 0)

    def updates_before(self, steps: int) -> int:
        """Gradient steps due within so many environment steps: the integral of the update ratio over them."""
        settled = self.early_update_factor * EARLY_STEPS  # steps after which the factor is 1
        falling = EARLY_STEPS * math.log(min(max(steps, EARLY_STEPS), settled) / EARLY_STEPS)
        early = self.early_update_factor * (min(steps, EARLY_STEPS) + falling)
        return math.floor(self.update_ratio * (early + max(steps - settled, 0.0)) + 1e-9)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "batch_size", "replay_capacity", "n_step", "early_update_factor")
        if self.retrace and self.n_step > self.batch_size:
            raise BadValue(f"retrace needs n_step <= batch_size = {self.batch_size}, got n_step = {self.n_step}")
        require_at_least(self, 0, "random_epochs")
        require_between(self, 0.0, 1.0, "polyak", "noiseless_share")
        require_between(self, 0.0, 2.0, "noise_color")
        if self.policy_steady_updates is not None:
            require_at_least(self, 1, "policy_steady_updates")
        require_positive(self, "update_ratio", "critic_learning_rate")


@dataclass(frozen=True)
class OnPolicyConfig(LoopConfig):
    """Settings of the methods that learn from the newest episodes only."""

    gae_lambda: float = setting(0.97, "critics")
    """λ of the generalised advantage estimation (GAE) of the reward."""
    cost_gae_lambda: float = setting(0.97, "critics")
    """λ of the generalised advantage estimation (GAE) of the costs."""
    value_learning_rate: float = setting(1e-3, "critics")
    """Learning rate of the value functions (Adam)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between(self, 0.0, 1.0, "gae_lambda", "cost_gae_lambda")
        require_positive(self, "value_learning_rate")


def require_constraint(config: Any) -> None:
    """Refuse a constraint that is none, or one of a statistic that no critic estimates."""
    require_at_least(config, 2, "constraint_episodes")
    if parse_constraint(config.constraint).kind != "mean" and config.cost_signal != "measured":
        raise BadValue(
            f"constraint {config.constraint} is on measured episodes, got cost_signal {config.cost_signal}; "
            "set cost_signal measured"
        )


def require_at_least(config: Any, low: float, *names: str) -> None:
    for name in names:
        if not getattr(config, name) >= low:
            raise BadValue(f"{name} must be >= {low}, got {getattr(config, name)}")


def require_positive(config: Any, *names: str) -> None:
    for name in names:
        if not (getattr(config, name) > 0 and math.isfinite(getattr(config, name))):
            raise BadValue(f"{name} must be a positive finite number, got {getattr(config, name)}")


def require_between(config: Any, low: float, high: float, *names: str) -> None:
    for name in names:
        if not low <= getattr(config, name) <= high:
            raise BadValue(f"{name} must be between {low} and {high}, got {getattr(config, name)}")


C = TypeVar("C")


def with_overrides(owner: str, config: C, overrides: Mapping[str, Any]) -> C:
    """The `config` of `owner` with some fields replaced; unknown names and values of the wrong type are refused."""
    hints = typing.get_type_hints(type(config))
    names = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    checked = {}
    for name, value in overrides.items():
        if name not in names:
            raise BadValue(f"{owner} has no setting {name!r}{did_you_mean(name, names)}")
        checked[name] = _coerce(name, value, hints[name])
    return dataclasses.replace(config, **checked)  # type: ignore[type-var]


def _coerce(name: str, value: Any, hint: Any) -> Any:
    """`value` as the type of its field, so that JSON's lists and numbers, and NumPy's, fit tuples, floats and ints."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    for option in options:
        origin = typing.get_origin(option)
        if option is type(None) and value is None:
            return None
        if origin is typing.Literal and value in typing.get_args(option):
            return value
        if origin is tuple and isinstance(value, (list, tuple)):
            return tuple(_coerce(name, item, typing.get_args(option)[0]) for item in value)
        if option is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if option is int and isinstance(value, float) and value.is_integer():
            return int(value)  # 1e6
        if option in (int, bool, str) and type(value) is option:
            return value
    expected = " or ".join(getattr(option, "__name__", str(option)) for option in options)
    raise BadValue(f"{name} must be {expected}, got {value!r}")
