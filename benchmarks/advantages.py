"""Whether CVPO's critics prefer the right actions, measured by playing on.

    cvpo train Car-Goal --steps 200000 --run-dir runs/car-goal
    python benchmarks/advantages.py runs/car-goal

Plays episodes of the run's policy, as it explores, and compares each action's advantage A = Q(s, a) - E_π Q(s, ·) with
what was then earned or paid, G. A critic that is right has a slope of G on A of 1; one whose preferences are noise
has 0. "gain" is what a step of one deviation along A really changes, with its standard error over episodes.

Single actions change little where steps are short, and the slopes are then lost in the scatter of what follows. So the
same episodes are played again with every action moved by half a deviation, on average, to where a critic's slope
points: towards more reward, or towards less of a cost. What that changes in a whole episode is far easier to see.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from cvpo.algorithms.base import Spec
from cvpo.algorithms.cvpo.heads import make_head
from cvpo.algorithms.offpolicy.critics import make_critics
from cvpo.algorithms.registry import build
from cvpo.algorithms.shared.noise import draw_noise
from cvpo.algorithms.shared.normalize import scale
from cvpo.envs.rollout import collect, make_act
from cvpo.presets import make_config
from cvpo.runs.checkpoint import CheckpointStore
from cvpo.runs.directory import read_config
from cvpo.training.train import environment_maker
from cvpo.training.warm_start import learner_identity

SAMPLES = 16  # actions that estimate a state's value
SLOPES = 8  # actions at which a state's slope is taken
SHIFT = 0.5  # of an action along it, in the policy's deviations, root mean square


def newest_learner(path: Path, settings: dict, spec: Spec, envs: int, init: object) -> object:
    identity = learner_identity(settings["algorithm"], spec, envs)
    checkpoint = CheckpointStore(path / "checkpoints", identity).load(init)
    if checkpoint is None:
        raise SystemExit(f"{path} has no checkpoint; `cvpo train` keeps them, `cvpo reproduce` does not")
    return jax.tree.map(jnp.asarray, checkpoint.learner)


def discounted(signal: np.ndarray, gamma: float) -> np.ndarray:
    """What follows each step [H, N]; behind an episode's end, its mean goes on."""
    rest = np.full(signal.shape[1], signal.mean() / (1 - gamma))
    out = np.zeros(signal.shape)
    for time in range(len(signal) - 1, -1, -1):
        rest = signal[time] + gamma * rest
        out[time] = rest
    return out


def report(name: str, advantage: np.ndarray, value: np.ndarray, followed: np.ndarray) -> None:
    """Arrays [H, N]; steps of an episode are alike, so that errors are taken over episodes."""
    preferred, surprise = advantage - advantage.mean(), followed - value
    products = (preferred * (surprise - surprise.mean())).mean(0)
    deviation = preferred.std()
    gain, error = products.mean() / deviation, products.std() / np.sqrt(len(products)) / deviation
    print(
        f"{name:7} gain {gain:.4f} ± {error:.4f}   slope {gain / deviation:.2f} ± {error / deviation:.2f}   "
        f"value {value.mean():.2f}, measured {followed.mean():.2f}, correlation "
        f"{np.corrcoef(value.ravel(), followed.ravel())[0, 1]:.2f}"
    )


def followed(name: str, before: np.ndarray, after: np.ndarray) -> str:
    change = after - before
    return f"{name} {after.mean():.4g} ({change.mean():+.3g} ± {change.std() / np.sqrt(len(change)):.2g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--episodes", type=int, default=400)
    arguments = parser.parse_args()
    settings = read_config(arguments.run)
    config = make_config("cvpo", None, settings["config"])
    spec = Spec(**settings["spec"] | {"cost_limits": tuple(settings["spec"]["cost_limits"])})
    algorithm = build("cvpo", config, spec)
    learner = newest_learner(arguments.run, settings, spec, config.envs, algorithm.init(jax.random.key(0)))
    with environment_maker(settings["env"], config, spec.cost_limits)(arguments.episodes) as environments:
        params, seeds = algorithm.policy(learner), np.arange(arguments.episodes)
        rows = (spec.episode_length, arguments.episodes)
        noise = np.asarray(draw_noise(spec, jax.random.key(1), rows, config.noise_color))
        played = collect(environments, make_act(algorithm), params, noise, seeds, lambda fraction: None)
        judge(arguments.episodes, config, spec, learner, played)
        for index in range(1 + spec.num_costs):
            act = shifted(algorithm, config, spec, learner, played, index)
            again = collect(environments, act, params, noise, seeds, lambda fraction: None)
            name = signal_names(spec)[index]
            totals = [np.concatenate([p.reward.sum(0)[None], p.costs.sum(0).T]) for p in (played, again)]
            changes = (followed(*row) for row in zip(signal_names(spec), *totals, strict=True))
            print(f"{'more reward' if index == 0 else f'less {name}':11} followed: " + ", ".join(changes))


def signal_names(spec: Spec) -> list[str]:
    return ["reward", *(f"cost {i}" if spec.num_costs > 1 else "cost" for i in range(spec.num_costs))]


def shifted(algorithm, config, spec: Spec, learner, played, index: int):
    """How to act with every action moved along a critic's slope: up for the reward, down for a cost."""
    critics, head = make_critics(config, spec), make_head(config, spec)
    moments, state = learner if config.normalize_observations else (None, learner)

    def slope(obs: jax.Array) -> jax.Array:
        """In the policy's deviations [N, a]."""
        obs = obs if moments is None else scale(moments, obs)
        policy = head.distribution(state.target_actor, obs)
        around, _ = head.candidates(policy, jax.random.key(3), SLOPES)

        def total(actions: jax.Array) -> jax.Array:
            reward, costs = critics.combine(critics.values(state.critics.target, obs, actions))
            return reward.sum() if index == 0 else -costs[index - 1].sum()

        return jnp.einsum("nji,nj->ni", policy.scale_tril, jax.grad(total)(around).mean(1))

    rows = played.obs[::20].reshape(-1, spec.obs_size)
    size = jnp.sqrt((jax.jit(slope)(rows) ** 2).sum(-1).mean())

    @jax.jit
    def act(params, obs, noise):
        return algorithm.act(params, obs, noise + SHIFT / size * slope(obs))

    return act


def judge(episodes: int, config, spec: Spec, learner, played) -> None:
    """Print how well the critics' advantages agree with what was earned and paid in the episodes that were played."""
    critics, head = make_critics(config, spec), make_head(config, spec)
    moments, state = learner if config.normalize_observations else (None, learner)

    @jax.jit
    def seen(obs: jax.Array, action: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Advantages and values [1 + m, N] at one time."""
        obs = obs if moments is None else scale(moments, obs)
        around, _ = head.candidates(head.distribution(state.target_actor, obs), key, SAMPLES)

        def mean_value(actions: jax.Array) -> jax.Array:
            reward, costs = critics.combine(critics.values(state.critics.target, obs, actions))
            units = state.critics.units
            return units.level[:, None] + units.scale[:, None] * jnp.concatenate([reward[None], costs]).mean(-1)

        value = mean_value(around)
        return mean_value(action[:, None]) - value, value

    keys = jax.random.split(jax.random.key(2), len(played.obs))
    pairs = [seen(*step) for step in zip(played.obs, played.action, keys, strict=True)]
    advantages, values = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))  # [1 + m, H, N]
    signals = np.concatenate([played.reward[None], np.moveaxis(played.costs, -1, 0)])
    early = slice(0, len(keys) * 5 // 8)  # behind them, enough is left to be played to tell
    earned, paid = played.reward.sum(0).mean(), played.costs.sum(0).mean()
    print(f"{episodes} episodes: reward {earned:.1f}, cost {paid:.1f}")
    gammas = [config.gamma, *[config.cost_discount(spec.episode_length)] * spec.num_costs]
    for name, advantage, value, signal, gamma in zip(
        signal_names(spec), advantages, values, signals, gammas, strict=True
    ):
        report(name, advantage[early], value[early], discounted(signal, gamma)[early])


if __name__ == "__main__":
    main()
