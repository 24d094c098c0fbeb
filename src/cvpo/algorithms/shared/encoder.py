"""Images as features, around any algorithm: one small convolutional network that actor and critics share.

The encoder is learned apart from values and policy, by predicting what a step brings: its reward and costs, whether the
episode ends, and the features of what is seen next (as in Fujimoto et al. 2025, MR.Q). So it is the same for all
methods, and none of them need know of images. They see features of a slow average of it, which move little from one
update to the next. Shapes: R rows, D bytes of an observation, F features of a image, n other numbers, m costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from cvpo.algorithms.base import Algorithm, Key, Portable, Sample, Spec, Transition, UpdateMetrics, seen_through
from cvpo.algorithms.shared import networks
from cvpo.algorithms.shared.normalize import CLIP, Moments, merge, no_rows, scale, scaling

FEATURES = 64  # of each image
CHANNELS = (16, 32, 32, 32)  # of the convolutions, 3×3 with stride 2, until a image is as small as SMALLEST
SMALLEST = 8
PREDICTOR = (128,)  # hidden layers of what predicts
LEARNING_RATE = 1e-3
HEAD_START = 500  # steps of the encoder before anything else learns: what features mean changes much until then
AVERAGING = 0.02  # share of the newest encoder in the slow average, for each update on a replay's batch
PASSES = 5  # over the rollout of an update that has a whole one
MINIBATCH = 64  # rows in a step of these passes
AT_ONCE = 256  # rows that are encoded at once, where no gradient is needed

Convolutions = tuple[tuple[jax.Array, jax.Array], ...]  # the last one is a matrix product


class Weights(NamedTuple):
    encoders: tuple[Convolutions, ...]  # one for each image
    predictor: networks.MLP


class EncoderState(NamedTuple):
    weights: Weights
    slow: tuple[Convolutions, ...]  # what actor and critics see through
    optimizer: optax.OptState
    numbers: Moments  # [n] of what is no image in an observation
    signals: Moments  # [1 + m] of reward and costs
    steps: jax.Array  # of its optimiser so far


class Eyes(NamedTuple):
    """What acting needs of an encoder."""

    encoders: tuple[Convolutions, ...]
    numbers: Moments


def with_encoder(make: Any, spec: Spec, normalize: bool, whole_rollouts: bool) -> Algorithm:
    """An algorithm that sees features instead of images.

    make(spec) -> Algorithm, for the features. normalize: whether to scale the numbers beside the images.
    whole_rollouts: whether an update has a rollout [H, N], once an epoch, and not a batch of a replay.
    """
    pixels = sum(map(math.prod, spec.images))
    numbers = (spec.obs_size - pixels) // 4
    inner: Algorithm = make(replace(spec, obs_size=FEATURES * len(spec.images) + numbers, images=()))
    optimizer = optax.adam(LEARNING_RATE)

    def init(key: Key) -> tuple[EncoderState, Any]:
        inner_key, predictor_key, *keys = jax.random.split(key, 2 + len(spec.images))
        encoders = tuple(encoder_init(k, shape) for k, shape in zip(keys, spec.images, strict=True))
        seen = FEATURES * len(spec.images)
        sizes = (seen + numbers + spec.action_size, *PREDICTOR, 2 + spec.num_costs + seen)
        weights = Weights(encoders, networks.mlp_init(predictor_key, sizes, last_scale=0.01))
        moments = no_rows(numbers), no_rows(1 + spec.num_costs)
        state = EncoderState(weights, encoders, optimizer.init(weights), *moments, jnp.zeros((), jnp.int32))
        return state, inner.init(inner_key)

    def unscaled(obs: jax.Array) -> jax.Array:
        """The numbers [..., n] beside the images."""
        return jax.lax.bitcast_convert_type(obs[..., pixels:].reshape(*obs.shape[:-1], numbers, 4), jnp.float32)

    def others(moments: Moments, obs: jax.Array) -> jax.Array:
        return scale(moments, unscaled(obs)) if normalize else unscaled(obs)

    def image_features(encoders: tuple[Convolutions, ...], obs: jax.Array) -> jax.Array:
        """Features [R, F] of all images in [R, D]."""
        found, start = [], 0
        for encoder, shape in zip(encoders, spec.images, strict=True):
            image = obs[:, start : start + math.prod(shape)].reshape(-1, *shape)
            found.append(encode(encoder, image))
            start += math.prod(shape)
        return jnp.concatenate(found, axis=-1)

    def features(eyes: Eyes, obs: jax.Array) -> jax.Array:
        """What the algorithm sees [..., F + n] of observations [..., D]."""
        flat = obs.reshape(-1, obs.shape[-1])
        if len(flat) > AT_ONCE:  # the convolutions of all at once would take too much memory
            found = jax.lax.map(lambda row: image_features(eyes.encoders, row[None])[0], flat, batch_size=AT_ONCE)
        else:
            found = image_features(eyes.encoders, flat)
        seen = jnp.concatenate([found, others(eyes.numbers, flat)], axis=-1)
        return seen.reshape(*obs.shape[:-1], seen.shape[-1])

    def eyes(state: EncoderState) -> Eyes:
        return Eyes(state.slow, state.numbers)

    def seen(state: EncoderState, data: Transition | Sample) -> Any:
        return seen_through(lambda obs: features(eyes(state), obs), data)

    def loss(weights: Weights, state: EncoderState, rows: Transition) -> jax.Array:
        """Of predicting the step from what is seen before it and the action; each part counts alike."""
        now = [image_features(weights.encoders, rows.obs), others(state.numbers, rows.obs)]
        chosen = jax.nn.one_hot(rows.action, spec.action_size) if spec.discrete else jnp.clip(rows.action, -1.0, 1.0)
        guess = networks.mlp_apply(weights.predictor, jnp.concatenate([*now, chosen], axis=-1))
        signals = scale(state.signals, jnp.concatenate([rows.reward[:, None], rows.costs], axis=-1))
        later = jax.lax.stop_gradient(image_features(state.slow, rows.next_obs))
        truth = jnp.concatenate([signals, rows.terminated[:, None], later], axis=-1)
        errors = ((guess - truth) ** 2).mean(0)
        count = 2 + spec.num_costs
        return errors[:count].sum() + errors[count:].mean()

    def step(state: EncoderState, rows: Transition) -> tuple[EncoderState, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(state.weights, state, rows)
        change, opt_state = optimizer.update(gradient, state.optimizer)
        weights = optax.apply_updates(state.weights, change)
        return state._replace(weights=weights, optimizer=opt_state, steps=state.steps + 1), value

    def once_it_sees(state: EncoderState, new: Any, old: Any) -> Any:
        """`old` until the encoder has had its head start. Multipliers wait too: they would answer a policy at rest."""
        return jax.tree.map(lambda x, y: jnp.where(state.steps < HEAD_START, y, x), new, old)

    def learn(state: EncoderState, batch: Transition, key: Key) -> tuple[EncoderState, jax.Array]:
        leading = batch.reward.ndim
        rows: Transition = jax.tree.map(lambda x: x.reshape(-1, *x.shape[leading:]), batch)
        if not whole_rollouts:
            state, value = step(state, rows)
            slow = optax.incremental_update(state.weights.encoders, state.slow, AVERAGING)
            return state._replace(slow=slow), value
        count = len(rows.reward)
        size = min(MINIBATCH, count)
        order = jax.vmap(lambda k: jax.random.permutation(k, count))(jax.random.split(key, PASSES))
        order = order[:, : count // size * size].reshape(-1, size)
        state, values = jax.lax.scan(lambda s, chosen: step(s, jax.tree.map(lambda x: x[chosen], rows)), state, order)
        return state._replace(slow=state.weights.encoders), values.mean()

    def update(state: tuple[EncoderState, Any], data: Transition | Sample, key: Key) -> tuple[Any, UpdateMetrics]:
        encoder, rest = state
        inner_key, own_key = jax.random.split(key)
        # the algorithm first: it learns from a rollout through the eyes that collected it
        new, metrics = inner.update(rest, seen(encoder, data), inner_key)
        rest = once_it_sees(encoder, new, rest)
        encoder, value = learn(encoder, data.steps if isinstance(data, Sample) else data, own_key)
        return (encoder, rest), metrics._replace(mean=metrics.mean | {"encoder/loss": value})

    def observe(state: tuple[EncoderState, Any], rollout: Transition, noiseless: jax.Array) -> tuple[EncoderState, Any]:
        encoder, rest = state
        flat = rollout.obs.reshape(-1, spec.obs_size)
        signals = jnp.concatenate([rollout.reward[..., None], rollout.costs], axis=-1)
        encoder = encoder._replace(
            numbers=merge(encoder.numbers, unscaled(flat)),
            signals=merge(encoder.signals, signals.reshape(-1, signals.shape[-1])),
        )
        return encoder, once_it_sees(encoder, inner.observe(rest, seen(encoder, rollout), noiseless), rest)

    def act(params: tuple[Eyes, Any], obs: jax.Array, noise: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        looking, rest = params
        return inner.act(rest, features(looking, obs), noise)

    def policy(state: tuple[EncoderState, Any]) -> tuple[Eyes, Any]:
        return eyes(state[0]), inner.policy(state[1])

    def portable(params: tuple[Eyes, Any]) -> Portable:
        looking, rest = params
        assert inner.portable is not None
        description, arrays = inner.portable(rest)
        description |= {"images": [{"shape": list(s), "axes": list(channels_last(s))} for s in spec.images]}
        for i, encoder in enumerate(looking.encoders):
            for j, (weight, bias) in enumerate(encoder):
                arrays |= {f"image_{i}/layer_{j}/weight": weight, f"image_{i}/layer_{j}/bias": bias}
        if normalize and numbers:
            mean, deviation = scaling(looking.numbers)
            description |= {"observation_clip": CLIP}
            arrays |= {"observation/mean": mean, "observation/deviation": deviation}
        return Portable(description, arrays)

    return Algorithm(init, policy, act, update, observe, inner.describe, portable)


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """The order of a image's axes in which height and width come first, and all others after them.

    A image is [height, width, channels]; [channels, height, width] if its first axis is the shorter one, as of
    stacked grey frames; or [frames, height, width, channels].
    """
    if len(shape) == 4:
        return (1, 2, 0, 3)
    return (1, 2, 0) if shape[0] < shape[2] else (0, 1, 2)


def encoder_init(key: Key, shape: Sequence[int]) -> Convolutions:
    order = channels_last(shape)
    height, width = (shape[axis] for axis in order[:2])
    channels = math.prod(shape) // (height * width)
    sizes = []
    for outputs in CHANNELS:
        sizes.append((9 * channels, outputs))
        height, width, channels = -(-height // 2), -(-width // 2), outputs
        if min(height, width) <= SMALLEST:
            break
    sizes.append((height * width * channels, FEATURES))
    initializer, keys = jax.nn.initializers.orthogonal(2**0.5), jax.random.split(key, len(sizes))
    return tuple((initializer(k, size), jnp.zeros(size[1])) for k, size in zip(keys, sizes, strict=True))


def encode(encoder: Convolutions, image: jax.Array) -> jax.Array:
    """Features [R, F], each in [-1, 1], of bytes [R, ...] of a image's shape."""
    order = channels_last(image.shape[1:])
    x = image.transpose(0, *(1 + axis for axis in order)).astype(jnp.float32) / 255
    x = x.reshape(*x.shape[:3], -1)
    *convolutions, (weight, bias) = encoder
    for layer in convolutions:
        x = jax.nn.relu(convolve(layer, x))
    x = x.reshape(len(x), -1) @ weight + bias
    # without gains, as in the critics: what matters is which features stand out, whatever the brightness
    x = x - x.mean(-1, keepdims=True)
    return jnp.tanh(x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5))


def convolve(layer: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
    """3×3 with stride 2 and zeros around: [R, h, w, c] -> [R, ⌈h/2⌉, ⌈w/2⌉, o], for a weight [9·c, o].

    As one matrix product of all patches: on a CPU the gradients of XLA's own convolution are many times slower.
    """
    weight, bias = layer
    height, width = -(-x.shape[1] // 2), -(-x.shape[2] // 2)
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    shifted = [x[:, i : i + 2 * height - 1 : 2, j : j + 2 * width - 1 : 2] for i in range(3) for j in range(3)]
    return jnp.concatenate(shifted, axis=-1) @ weight + bias
