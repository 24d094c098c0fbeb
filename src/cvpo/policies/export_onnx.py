"""A policy as an ONNX file: input `observation` [batch, D], output `action` [batch, ...]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cvpo.errors import Unavailable
from cvpo.policies.policy import Policy

OPSET = 17


def write_onnx(policy: Policy, path: Path) -> None:
    """Write the file and compare its actions, by ONNX Runtime, with those of the policy."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise Unavailable("ONNX needs an extra, cvpo[onnx]; in a clone: pip install '.[onnx]'") from error
    from cvpo.policies.export import probes, require_equal

    model = build(policy)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    observations = probes(policy)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"observation": observations})
    require_equal(policy, policy.actor(observations), found, path)


def build(policy: Policy) -> Any:
    """The model, in float32 throughout."""
    from onnx import TensorProto, helper, numpy_helper

    description, arrays = policy.description, policy.arrays
    kind, action, size = description["kind"], description["action"], description["observation"]["size"]
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(name: str, values: Any, dtype: Any = np.float32) -> str:
        constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def affine(layer: str, x: str) -> str:
        weight, bias = (constant(f"actor/{layer}/{end}", arrays[f"actor/{layer}/{end}"]) for end in ("weight", "bias"))
        return node("Gemm", x, weight, bias)

    def clipped(x: str, bound: str, value: float) -> str:
        return node("Clip", x, constant(f"{bound}_low", -value), constant(f"{bound}_high", value))

    x = "observation"
    if "observation/mean" in arrays:
        x = node("Sub", x, constant("observation/mean", arrays["observation/mean"]))
        x = node("Div", x, constant("observation/deviation", arrays["observation/deviation"]))
        x = clipped(x, "observation/clip", description["observation_clip"])
    count = sum(name.startswith("actor/layer_") and name.endswith("/weight") for name in arrays)
    for i in range(count):
        x = node({"relu": "Relu", "tanh": "Tanh"}[description["activation"]], affine(f"layer_{i}", x))
    if kind == "categorical":
        x = node("ArgMax", affine("logits", x), axis=1, keepdims=0)
        x = node("Add", x, constant("action/start", action["start"], np.int64))
        shape, dtype = ["batch"], TensorProto.INT64
    else:
        x = affine("mean", x)
        if description["mean"] == "tanh":
            x = node("Tanh", x)
        x = clipped(x, "action/unit", 1.0)
        low, high = np.array(action["low"]), np.array(action["high"])
        x = node("Mul", node("Add", x, constant("one", 1.0)), constant("action/half", 0.5 * (high - low)))
        x = node("Min", node("Add", x, constant("action/low", low)), constant("action/high", high))
        x = node("Reshape", x, constant("action/shape", [-1, *action["shape"]], np.int64))
        shape, dtype = ["batch", *action["shape"]], TensorProto.FLOAT
    nodes.append(helper.make_node("Identity", [x], ["action"]))
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["batch", size])],
        [helper.make_tensor_value_info("action", dtype, shape)],
        constants,
    )
    # the oldest format that has these operators, so that older runtimes read it too
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="cvpo")
