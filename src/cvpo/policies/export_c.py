"""A policy as one C header without dependencies: weights as arrays, and `policy(observation, action)`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from cvpo.policies.policy import Policy

_ACTIVATIONS = {"relu": "x > 0.0f ? x : 0.0f", "tanh": "tanhf(x)"}


def header(policy: Policy) -> str:
    """The text of policy.h. It is C99, allocates nothing and has no state, so that it may be called from anywhere."""
    description, arrays = policy.description, policy.arrays
    kind, size = description["kind"], description["observation"]["size"]
    hidden = sorted(name for name in arrays if name.startswith("actor/layer_") and name.endswith("/weight"))
    head = "logits" if kind == "categorical" else "mean"
    layers = [name.split("/")[1] for name in sorted(hidden, key=lambda n: int(n.split("/")[1][6:]))] + [head]
    widths = [size] + [arrays[f"actor/{layer}/bias"].size for layer in layers]
    outputs = 1 if kind == "categorical" else widths[-1]
    algorithm, environment = (_in_comment(description["trained"][name]) for name in ("algorithm", "environment"))
    text = [
        f"/* A {kind} policy of {algorithm}, trained on {environment}; written by cvpo export.",
        f"   policy(observation, action): {size} numbers in, {outputs} out, in the environment's own units",
        "   (the most likely action; the choice as a number if actions are discrete). Link with -lm. */",
        "#ifndef CVPO_POLICY_H",
        "#define CVPO_POLICY_H",
        "",
        "#include <math.h>",
        "",
        f"#define POLICY_OBSERVATION_SIZE {size}",
        f"#define POLICY_ACTION_SIZE {outputs}",
        "",
    ]
    if "observation/mean" in arrays:
        text += [_array("policy_observation_mean", arrays["observation/mean"])]
        text += [_array("policy_observation_deviation", arrays["observation/deviation"])]
    for i, layer in enumerate(layers):
        text += [f"/* {layer}: {widths[i]} to {widths[i + 1]}, one row for each input */"]
        text += [_array(f"policy_{layer}_weight", arrays[f"actor/{layer}/weight"])]
        text += [_array(f"policy_{layer}_bias", arrays[f"actor/{layer}/bias"])]
    if kind != "categorical":
        text += [_array(f"policy_action_{end}", np.array(description["action"][end])) for end in ("low", "high")]
    activation = _ACTIVATIONS[description["activation"]]
    text += ["", f"static inline float policy_activation(float x) {{ return {activation}; }}"]
    text += _LAYER
    text += ["static inline void policy(const float observation[], float action[]) {"]
    text += [f"    float a[{max(widths)}], b[{max(widths)}];", f"    for (int i = 0; i < {size}; i++) {{"]
    if "observation/mean" in arrays:
        clip = _number(description["observation_clip"])
        text += [
            "        float x = (observation[i] - policy_observation_mean[i]) / policy_observation_deviation[i];",
            f"        a[i] = x < -{clip} ? -{clip} : x > {clip} ? {clip} : x;",
        ]
    else:
        text += ["        a[i] = observation[i];"]
    text += ["    }"]
    now, following = "a", "b"
    for i, layer in enumerate(layers):
        text += [
            f"    policy_layer({widths[i]}, {widths[i + 1]}, policy_{layer}_weight, policy_{layer}_bias, {now}, "
            f"{following}, {int(i < len(layers) - 1)});"
        ]
        now, following = following, now
    text += (
        _choice(now, widths[-1], description["action"])
        if kind == "categorical"
        else _units(now, outputs, description["mean"] == "tanh")
    )
    text += ["}", "", "#endif", ""]
    return "\n".join(text)


_LAYER = [
    "",
    "static inline void policy_layer(int inputs, int outputs, const float *weight, const float *bias, const float *in,",
    "                                float *out, int activate) {",
    "    for (int j = 0; j < outputs; j++) out[j] = bias[j];",
    "    for (int i = 0; i < inputs; i++)",
    "        for (int j = 0; j < outputs; j++) out[j] += in[i] * weight[i * outputs + j];",
    "    if (activate)",
    "        for (int j = 0; j < outputs; j++) out[j] = policy_activation(out[j]);",
    "}",
    "",
]


def _choice(values: str, count: int, action: dict) -> list[str]:
    return [
        "    int best = 0;",
        f"    for (int i = 1; i < {count}; i++) if ({values}[i] > {values}[best]) best = i;",
        f"    action[0] = (float)(best + {action['start']});",
    ]


def _units(values: str, count: int, bounded: bool) -> list[str]:
    return [
        f"    for (int i = 0; i < {count}; i++) {{",
        f"        float x = {f'tanhf({values}[i])' if bounded else f'{values}[i]'};",
        "        x = x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;",
        "        x = policy_action_low[i] + (x + 1.0f) * 0.5f * (policy_action_high[i] - policy_action_low[i]);",
        "        action[i] = x > policy_action_high[i] ? policy_action_high[i] : x;",
        "    }",
    ]


def _in_comment(text: str) -> str:
    """A name of the policy file, which may be anybody's: without what could end the comment and begin code."""
    return re.sub(r"[^\w /.,:()=+-]", "_", text, flags=re.ASCII)


def _array(name: str, values: np.ndarray) -> str:
    numbers = [_number(value) for value in np.asarray(values, np.float32).reshape(-1)]
    lines = [", ".join(numbers[i : i + 8]) for i in range(0, len(numbers), 8)]
    return f"static const float {name}[{len(numbers)}] = {{\n    " + ",\n    ".join(lines) + "};"


def _number(value: Any) -> str:
    """A float32 as C has it, exact to the last bit."""
    text = repr(float(np.float32(value)))
    return (text if "." in text or "e" in text else text + ".0") + "f"
