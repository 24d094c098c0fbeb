"""What the on-policy methods share: the policy, the value functions, the advantages and the iteration around them.

A method adds one function, `improve`, which betters the policy on a batch. Shapes: H steps of N environments make
B = H·N rows; o observation size; m constraints; the reward and the m costs are one array of signals [1 + m, ...].
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from cvpo import networks
from cvpo.config import OnPolicyConfig, require_at_least, require_between, require_positive
from cvpo.ops import lagrange, mstep, returns
from cvpo.ops.distributions import Categorical, Gaussian
from cvpo.types import Algorithm, Info, Key, Spec, Transition, first_episode_means

ACTIVATIONS: dict[str, networks.Activation] = {"tanh": jnp.tanh, "relu": jax.nn.relu}
VALUE_SCALE_DECAY = 0.9  # the least ratio of a value function's scale to the one before it

# The paper's table of hyper-parameters (appendix), as far as it is about on-policy methods.
PAPER: dict[str, Any] = {
    "hidden": (256, 256), "activation": "relu", "gamma": 0.99, "minibatch_size": 300, "envs": 20,
    "value_learning_rate": 1e-3, "normalize_observations": False, "eval_every": 1,
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {"default": {}, "paper": PAPER}


@dataclass(frozen=True)
class PolicyConfig(OnPolicyConfig):
    """Settings of the policy and the value functions, common to the on-policy methods."""

    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of every network."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Between the layers of every network."""
    initial_scale: float = 0.6
    """Standard deviation of a continuous policy at the start; actions span [-1, 1]."""
    minibatch_size: int = 500
    """Steps in a gradient step; a smaller rollout is one minibatch."""
    value_epochs: int = 10
    """Passes over the rollout that fit the value functions."""
    value_clip: float | None = None
    """Bound on the change of a value in one iteration, in standard deviations of its targets."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "minibatch_size", "value_epochs")
        require_positive(self, "initial_scale")
        if self.value_clip is not None:
            require_positive(self, "value_clip")


@dataclass(frozen=True)
class MultiplierConfig(PolicyConfig):
    """Settings of the Lagrange multipliers; a method whose config has none of them ignores the costs."""

    safety_margin: float = 0.25
    """Share of the limit that the measured level is kept away from it, as episodes scatter about their mean."""
    multiplier_kp: float = 0.5
    """Proportional gain, on the relative excess of an episode's cost over its target."""
    multiplier_ki: float = 0.1
    """Integral gain; alone it is a plain multiplier with this learning rate."""
    multiplier_kd: float = 0.1
    """Derivative gain, on an increase of the cost from one iteration to the next."""
    max_multiplier: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 0, "multiplier_kp", "multiplier_ki", "multiplier_kd")
        require_between(self, 0.0, 1.0, "safety_margin")
        require_positive(self, "max_multiplier")


# The policy ---------------------------------------------------------------------------------------------------------


class PolicyParams(NamedTuple):
    network: networks.MLP  # the mean, or the logits of discrete choices
    log_scale: jax.Array | None  # [d], the same in every state; None if discrete


class Policy(NamedTuple):
    """A stochastic policy as functions of its parameters.

    init(key) -> params
    distribution(params, obs [..., o]) -> Gaussian or Categorical
    act(params, obs [N, o], key | None) -> (action, log_prob [N])
    log_prob(distribution, action) -> [...]
    kl(old, new) -> [...]: KL(old || new) of two distributions
    """

    init: Callable[[Key], PolicyParams]
    distribution: Callable[[PolicyParams, jax.Array], Any]
    act: Callable[[PolicyParams, jax.Array, Key | None], tuple[jax.Array, jax.Array]]
    log_prob: Callable[[Any, jax.Array], jax.Array]
    kl: Callable[[Any, Any], jax.Array]


def make_policy(config: PolicyConfig, spec: Spec) -> Policy:
    activation = ACTIVATIONS[config.activation]

    def init(key: Key) -> PolicyParams:
        network = networks.mlp_init(key, (spec.obs_size, *config.hidden, spec.action_size), last_scale=0.01)
        log_scale = None if spec.discrete else jnp.full(spec.action_size, jnp.log(config.initial_scale))
        return PolicyParams(network, log_scale)

    def distribution(params: PolicyParams, obs: jax.Array) -> Gaussian | Categorical:
        out = networks.mlp_apply(params.network, obs, activation)
        if params.log_scale is None:
            return Categorical(out)
        # one factor [d, d] serves all states: what is computed from it is computed once
        return Gaussian(out, jnp.diag(jnp.exp(params.log_scale) + networks.MIN_SCALE))

    def log_prob(policy: Gaussian | Categorical, action: jax.Array) -> jax.Array:
        if isinstance(policy, Categorical):
            return policy.log_prob(action)
        return policy.log_prob(action[..., None, :])[..., 0]

    def act(params: PolicyParams, obs: jax.Array, key: Key | None) -> tuple[jax.Array, jax.Array]:
        policy = distribution(params, obs)
        if isinstance(policy, Categorical):
            action = policy.logits.argmax(-1) if key is None else policy.sample(key)
        else:
            action = policy.mean if key is None else policy.sample(key, 1)[..., 0, :]
        return action, log_prob(policy, action)

    return Policy(init, distribution, act, log_prob, mstep.categorical_kl if spec.discrete else mstep.gaussian_kl)


# The value functions ------------------------------------------------------------------------------------------------


class ValueState(NamedTuple):
    """A network for each signal, in units of its own: value = mean + scale · output.

    Networks learn numbers near 1 quickly and others slowly, and returns may have any size. Until the first targets set
    the units, the scale is 0 and so are all values.
    """

    params: tuple[networks.MLP, ...]
    optimizer: optax.OptState
    mean: jax.Array  # [1 + m]
    scale: jax.Array  # [1 + m]


class Values(NamedTuple):
    """The value functions of the reward and of each cost.

    init(key) -> ValueState
    predict(state, obs [B, o]) -> [1 + m, B]
    fit(state, obs [B, o], targets [1 + m, B], key) -> (ValueState, squared error [1 + m] over the targets' variance)
    """

    init: Callable[[Key], ValueState]
    predict: Callable[[ValueState, jax.Array], jax.Array]
    fit: Callable[[ValueState, jax.Array, jax.Array, Key], tuple[ValueState, jax.Array]]


def make_values(config: PolicyConfig, spec: Spec) -> Values:
    optimizer = optax.adam(config.value_learning_rate)
    activation = ACTIVATIONS[config.activation]
    signals = 1 + spec.num_costs

    def init(key: Key) -> ValueState:
        sizes = (spec.obs_size, *config.hidden, 1)
        params = tuple(networks.mlp_init(k, sizes) for k in jax.random.split(key, signals))
        return ValueState(params, optimizer.init(params), jnp.zeros(signals), jnp.zeros(signals))

    def outputs(params: tuple[networks.MLP, ...], obs: jax.Array) -> jax.Array:
        return jnp.stack([networks.mlp_apply(network, obs, activation)[..., 0] for network in params])

    def predict(state: ValueState, obs: jax.Array) -> jax.Array:
        return state.mean[:, None] + state.scale[:, None] * outputs(state.params, obs)

    def fit(state: ValueState, obs: jax.Array, targets: jax.Array, key: Key) -> tuple[ValueState, jax.Array]:
        state = rescale(state, targets)
        goals = (targets - state.mean[:, None]) / jnp.where(state.scale > 0, state.scale, 1.0)[:, None]
        before = outputs(state.params, obs)

        def loss(params: tuple[networks.MLP, ...], rows: jax.Array) -> tuple[jax.Array, jax.Array]:
            output, goal, old = outputs(params, obs[rows]), goals[:, rows], before[:, rows]
            squares = (output - goal) ** 2
            if config.value_clip is not None:
                clipped = old + jnp.clip(output - old, -config.value_clip, config.value_clip)
                squares = jnp.maximum(squares, (clipped - goal) ** 2)
            errors = squares.mean(1)
            return errors.sum(), errors  # networks share no parameter: the sum gives each its own gradient

        def step(carry: tuple, rows: jax.Array) -> tuple[tuple, jax.Array]:
            params, opt_state = carry
            (_, errors), gradient = jax.value_and_grad(loss, has_aux=True)(params, rows)
            change, opt_state = optimizer.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), errors

        keys = jax.random.split(key, config.value_epochs)
        rows = jax.vmap(lambda k: minibatches(k, obs.shape[0], config.minibatch_size))(keys)  # [epochs, M, size]
        start = (state.params, state.optimizer)
        (params, opt_state), errors = jax.lax.scan(step, start, rows.reshape(-1, rows.shape[-1]))
        last_pass = errors[-rows.shape[1] :]
        return state._replace(params=params, optimizer=opt_state), last_pass.mean(0)

    return Values(init, predict, fit)


def rescale(state: ValueState, targets: jax.Array) -> ValueState:
    """The same value functions in the units of new targets [1 + m, B] (van Hasselt et al. 2016, Eq. 9).

    The scale falls slowly only: a cost that vanishes must not turn its own rounding errors into large numbers. The
    first units are taken as they are, since there are no values to keep.
    """
    mean = targets.mean(1)
    scale = jnp.maximum(targets.std(1), VALUE_SCALE_DECAY * state.scale)
    first = state.scale == 0
    safe = jnp.where(scale > 0, scale, 1.0)  # a signal that never varied has no unit yet
    factor = jnp.where(first, 1.0, state.scale / safe)
    shift = jnp.where(first, 0.0, (state.mean - mean) / safe)
    params = tuple(
        (*network[:-1], (network[-1][0] * factor[i], network[-1][1] * factor[i] + shift[i]))
        for i, network in enumerate(state.params)
    )
    return state._replace(params=params, mean=mean, scale=scale)


def minibatches(key: Key, rows: int, size: int) -> jax.Array:
    """Indices [M, size] of as many whole minibatches as `rows` in a random order give."""
    size = min(size, rows)
    return jax.random.permutation(key, rows)[: rows // size * size].reshape(-1, size)


# The iteration ------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """A rollout as the policy's improvement needs it."""

    obs: jax.Array  # [B, o]
    action: jax.Array  # [B, d], or [B] if discrete
    log_prob: jax.Array  # [B] under the policy before its improvement
    advantages: jax.Array  # [1 + m, B], standardised
    cost_scales: jax.Array  # [m] what the costs' advantages were divided by
    episode_costs: jax.Array  # [m] means over episodes
    episode_length: jax.Array  # mean over episodes


class State(NamedTuple):
    policy: PolicyParams
    values: ValueState
    memory: Any  # what the method itself remembers: optimiser, multipliers


# improve(params, memory, batch, key) -> (params, memory, info)
Improve = Callable[[PolicyParams, Any, Batch, Key], tuple[PolicyParams, Any, Info]]


def make_algorithm(
    config: PolicyConfig, spec: Spec, policy: Policy, improve: Improve, init_memory: Callable[[PolicyParams], Any]
) -> Algorithm:
    """The iteration: advantages of a rollout, the policy's improvement on them, the value functions fitted to it."""
    values = make_values(config, spec)
    lambdas = jnp.array([config.gae_lambda] + [config.cost_gae_lambda] * spec.num_costs)

    def init(key: Key) -> State:
        policy_key, value_key = jax.random.split(key)
        params = policy.init(policy_key)
        state = State(params, values.init(value_key), init_memory(params))
        # JAX's weak types would become strong in the first update, and the second would be compiled anew.
        return jax.tree.map(lambda x: jnp.asarray(x, x.dtype), state)

    def advantages(state: ValueState, rollout: Transition) -> tuple[jax.Array, jax.Array]:
        """Advantages and value targets, [1 + m, B] each."""
        shape = rollout.reward.shape
        costs = rollout.costs[..., : spec.num_costs]
        signals = jnp.concatenate([rollout.reward[None], jnp.moveaxis(costs, -1, 0)])
        value, next_value = (
            values.predict(state, obs.reshape(-1, spec.obs_size)).reshape(-1, *shape)
            for obs in (rollout.obs, rollout.next_obs)
        )
        gae = jax.vmap(
            lambda v, next_v, signal, lam: returns.gae(
                v, next_v, signal, rollout.terminated, rollout.ended, config.gamma, lam
            )
        )
        advantage, target = gae(value, next_value, signals, lambdas)
        return advantage.reshape(len(signals), -1), target.reshape(len(signals), -1)

    def update(state: State, rollout: Transition, key: Key) -> tuple[State, Info]:
        policy_key, value_key = jax.random.split(key)
        advantage, target = advantages(state.values, rollout)
        obs = rollout.obs.reshape(-1, spec.obs_size)
        action = rollout.action.reshape(obs.shape[0], *rollout.action.shape[2:])
        standardised, deviations = standardize(advantage)
        batch = Batch(
            obs=obs,
            action=action,
            log_prob=rollout.log_prob.reshape(-1),
            advantages=standardised,
            cost_scales=deviations[1:],
            episode_costs=first_episode_means(rollout, rollout.costs[..., : spec.num_costs]),
            episode_length=first_episode_means(rollout, jnp.ones_like(rollout.reward)),
        )
        params, memory, info = improve(state.policy, state.memory, batch, policy_key)
        value_state, errors = values.fit(state.values, obs, target, value_key)
        old, new = policy.distribution(state.policy, obs), policy.distribution(params, obs)
        info |= {
            "update/kl": policy.kl(old, new).mean(),
            "update/entropy": new.entropy().mean(),
            "update/value_loss": errors[0],
        }
        for i, end in enumerate(spec.cost_ends):
            info[f"update/cost_value_loss{end}"] = errors[1 + i]
        return State(params, value_state, memory), info

    return Algorithm(init, lambda state: state.policy, policy.act, update)


def standardize(advantages: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Advantages [1 + m, B] with mean zero and unit deviation, and their deviations [1 + m] before.

    A signal whose advantages are all the same has the deviation 1.
    """
    centred = advantages - advantages.mean(1, keepdims=True)
    deviation = centred.std(1)
    deviation = jnp.where(deviation > 0, deviation, 1.0)
    return centred / deviation[:, None], deviation


# The Lagrangian -----------------------------------------------------------------------------------------------------


def heeded(config: PolicyConfig, spec: Spec) -> Spec:
    """`spec` with the constraints that a method heeds: none, unless its config has multipliers."""
    return spec if isinstance(config, MultiplierConfig) else dataclasses.replace(spec, cost_limits=())


def penalized_advantage(
    config: PolicyConfig, spec: Spec, controller: lagrange.PIDState, batch: Batch
) -> tuple[lagrange.PIDState, jax.Array, Info]:
    """(A_r - Σ λᵢ A_cᵢ) / (1 + Σ λᵢ) [B], with the multipliers that the rollout's own episode costs call for.

    The division keeps the policy's step of one size however large the multipliers are (Stooke et al. 2020, Eq. 9).
    """
    if not isinstance(config, MultiplierConfig):
        return controller, batch.advantages[0], {}
    gains = lagrange.PIDGains(config.multiplier_kp, config.multiplier_ki, config.multiplier_kd)
    excess = lagrange.relative_excess(batch.episode_costs, jnp.array(spec.cost_limits), config.safety_margin)
    controller, multipliers = lagrange.pid_update(controller, excess, gains, maximum=config.max_multiplier)
    penalty = multipliers @ batch.advantages[1:]
    info = {f"update/multiplier{end}": multipliers[i] for i, end in enumerate(spec.cost_ends)}
    return controller, (batch.advantages[0] - penalty) / (1 + multipliers.sum()), info
