"""A trained policy in NumPy alone: observations in, actions in the environment's own units out.

It needs two things, which a policy file holds: a description (JSON) and arrays by name. docs/policy_file.md of cvpo
explains both. `cvpo export --format numpy` copies this file as it is beside a policy's weights.
"""

import json
from pathlib import Path

import numpy as np

_KINDS = ("gaussian", "squashed", "deterministic", "categorical", "choices")
_ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0, out=x), "tanh": lambda x: np.tanh(x, out=x)}


class Actor:
    """Acts on flat float32 observations, [D] or [B, D]; with images they are bytes, as docs/policy_file.md says.

    `best` gives the most likely action and `draw` a random one, both as the policy knows them: components in [-1, 1],
    the number of a choice, or several choices as one-hot vectors side by side. `own_units` turns them into what the
    environment takes. Calling the actor does it all.
    """

    def __init__(self, description, arrays):
        self.description = description
        self.kind = description["kind"]
        if self.kind not in _KINDS:
            raise ValueError(f"kind must be one of {_KINDS}, got {self.kind!r}")
        self._activation = _ACTIVATIONS[description["activation"]]
        self._images = [
            (image["shape"], image["axes"], _layers(arrays, f"image_{i}"))
            for i, image in enumerate(description.get("images", ()))
        ]
        self._scaled = "observation/mean" in arrays
        if self._scaled:
            self._centre, self._deviation = arrays["observation/mean"], arrays["observation/deviation"]
            self._clip = np.float32(description["observation_clip"])
        self._hidden = _layers(arrays, "actor")
        self._head = _layer(arrays, "actor/logits" if self.kind in ("categorical", "choices") else "actor/mean")
        self._noise = description.get("noise", {})
        if self._noise.get("from") == "network":
            self._noise_head = _layer(arrays, "actor/noise")
        elif self._noise:
            self._constant_scale = arrays["actor/noise/scale"]
        self._bounded = description.get("mean") == "tanh"
        self._rng = None  # made when it is needed: loading NumPy's generators takes a tenth of the start
        action = description["action"]
        if self.kind in ("categorical", "choices"):
            self._start = np.array(action["start"])
        else:
            self._low, self._high = np.array(action["low"], float), np.array(action["high"], float)
            self._half = 0.5 * (self._high - self._low)
        if self.kind == "choices":
            self._splits = np.cumsum(description["choices"])[:-1]
        if self.kind != "categorical":
            self._shape, self._dtype = tuple(action["shape"]), np.dtype(action["dtype"])

    def __call__(self, observation, deterministic=True):
        """The action for one observation [D], or the actions for [B, D], in the environment's own units."""
        observation = np.asarray(observation, np.uint8 if self._images else np.float32)
        if deterministic:
            return self.own_units(self.best(observation))
        if self._rng is None:
            self.seed(0)
        return self.own_units(self.draw(observation, self._rng))

    def seed(self, seed):
        """Restart the random draws of `deterministic=False` from this seed."""
        self._rng = np.random.default_rng(seed)

    def best(self, obs):
        """The most likely action."""
        out = _affine(self._head, self._features(obs))
        if self.kind == "categorical":
            return out.argmax(-1)
        if self.kind == "choices":
            return self._one_hot(out)
        return np.tanh(out, out=out) if self._bounded else out

    def draw(self, obs, rng):
        """A random action; of a deterministic policy, one with the noise of its training."""
        features = self._features(obs)
        out = _affine(self._head, features)
        if self.kind == "categorical":
            return (out + rng.gumbel(size=out.shape)).argmax(-1)
        if self.kind == "choices":
            return self._one_hot(out + rng.gumbel(size=out.shape))
        noise = rng.standard_normal(out.shape, np.float32)
        if self.kind == "squashed":
            low, high = self._noise["lowest_log"], self._noise["highest_log"]
            log_scale = low + 0.5 * (high - low) * (np.tanh(_affine(self._noise_head, features)) + 1)
            return np.tanh(out + np.exp(log_scale) * noise)
        mean = np.tanh(out) if self._bounded else out
        if self._noise["from"] == "constant":
            return mean + self._constant_scale * noise
        return mean + (self._factor(features) @ noise[..., None])[..., 0]

    def own_units(self, action):
        """Actions as the environment takes them: its choices, or its bounds, shape and dtype."""
        if self.kind == "categorical":
            return action + self._start
        if self.kind == "choices":
            picked = [part.argmax(-1) for part in np.split(action, self._splits, axis=-1)]
            native = np.stack(picked, axis=-1) + self._start
            return native.reshape(action.shape[:-1] + self._shape).astype(self._dtype)
        action = np.minimum(np.maximum(action, -1.0), 1.0)
        native = np.minimum(self._low + (action + 1.0) * self._half, self._high)  # rounding may go beyond
        return native.reshape(action.shape[:-1] + self._shape).astype(self._dtype)

    def _one_hot(self, scores):
        """The highest score of each choice as 1, the others as 0."""
        parts = np.split(scores, self._splits, axis=-1)
        return np.concatenate([np.eye(part.shape[-1], dtype=np.float32)[part.argmax(-1)] for part in parts], axis=-1)

    def _features(self, x):
        """What the last layer sees."""
        seen = []
        for shape, axes, layers in self._images:
            size = int(np.prod(shape))
            seen.append(_encode(layers, x[..., :size].reshape(*x.shape[:-1], *shape), axes))
            x = x[..., size:]
        if seen:
            x = np.ascontiguousarray(x).view(np.float32)  # the numbers beside the images
        if self._scaled:
            x = (x - self._centre) / self._deviation
            x = np.minimum(np.maximum(x, -self._clip), self._clip)
        if seen:
            x = np.concatenate([*seen, x], axis=-1)
        for layer in self._hidden:
            x = self._activation(_affine(layer, x))
        return x

    def _factor(self, features):
        """The Cholesky factor of the noise's covariance [..., d, d]."""
        raw = _affine(self._noise_head, features)
        d = len(self._low)
        factor = np.zeros((*raw.shape[:-1], d, d), np.float32)
        rows = np.arange(d)
        factor[..., rows, rows] = np.logaddexp(0, raw[..., :d] + self._noise["shift"]) + self._noise["smallest"]
        if raw.shape[-1] > d:
            rows, columns = np.tril_indices(d, -1)
            factor[..., rows, columns] = self._noise["off_diagonal"] * raw[..., d:]
        return factor


def _encode(layers, image, axes):
    """Features in [-1, 1] of an image, or of a batch of them: convolutions, a layer, its output standardised."""
    batch = image.ndim - len(axes)
    x = image.transpose(*range(batch), *(batch + axis for axis in axes)).astype(np.float32) / np.float32(255)
    x = x.reshape(*x.shape[: batch + 2], -1)  # height, width, channels
    for layer in layers[:-1]:
        # 3x3 with stride 2 and zeros around: the nine pixels that each output sees, side by side
        height, width = -(-x.shape[-3] // 2), -(-x.shape[-2] // 2)
        x = np.pad(x, [(0, 0)] * batch + [(1, 1), (1, 1), (0, 0)])
        seen = [x[..., i : i + 2 * height - 1 : 2, j : j + 2 * width - 1 : 2, :] for i in range(3) for j in range(3)]
        x = np.maximum(_affine(layer, np.concatenate(seen, axis=-1)), 0)
    x = _affine(layers[-1], x.reshape(*x.shape[:batch], -1))
    x = x - x.mean(-1, keepdims=True)
    return np.tanh(x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5)))


def _layers(arrays, name):
    """Those that are numbered."""
    count = sum(key.startswith(f"{name}/layer_") and key.endswith("/weight") for key in arrays)
    return [_layer(arrays, f"{name}/layer_{i}") for i in range(count)]


def _layer(arrays, name):
    return arrays[f"{name}/weight"], arrays[f"{name}/bias"]


def _affine(layer, x):
    weight, bias = layer
    x = x @ weight
    x += bias
    return x


def load(folder=None):
    """The actor of an exported folder, by default the one that this file is in."""
    folder = Path(folder) if folder is not None else Path(__file__).parent
    with np.load(folder / "weights.npz") as arrays:
        return Actor(json.loads((folder / "policy.json").read_text()), {name: arrays[name] for name in arrays.files})
