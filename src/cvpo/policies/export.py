"""`export`: a policy for the robot, as NumPy-only Python, as a C header or as an ONNX file.

Each takes a flat float32 observation and gives the most likely action in the environment's own units: scaling of the
observation, squashing, clipping and units are inside. Python and ONNX are checked against the policy before they are
said to be done; a C header is not, as that would need a compiler.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Literal

import numpy as np

from cvpo.envs.spaces import images_of, size_of
from cvpo.errors import BadValue
from cvpo.policies import actor, export_c
from cvpo.policies.files import Which
from cvpo.policies.policy import Policy, load
from cvpo.runs.strict_json import to_json

Format = Literal["numpy", "c", "onnx"]
TOLERANCE = 1e-5  # in units of half the action's range
_USE = """Run it, with NumPy installed:

    import policy
    act = policy.load()
    action = act(observation)  # {dtype} [{size}] or [batch, {size}]; act(..., deterministic=False) draws with noise

policy.json describes the policy, weights.npz holds its arrays.
"""


def export(
    policy: Policy | str | Path, output: str | Path | None = None, format: Format = "numpy", which: Which = "newest"
) -> Path:
    """Write a policy in a form that runs without cvpo and return its path; all but C is checked to act the same.

    Args:
        policy: a loaded policy, or the path of a run.
        output: where it is written. By default RUN/export/policy_numpy, policy.h or policy.onnx.
        format: "numpy", a folder with one readable Python file and the weights; "c", a header with one function; or
            "onnx", for ONNX Runtime and similar (extra: onnx).
        which: the "newest" policy of a run, or its "best" one within the limit.
    """
    names = {"numpy": "policy_numpy", "c": "policy.h", "onnx": "policy.onnx"}
    if format not in names:
        raise BadValue(f"format must be one of {', '.join(names)}, got {format!r}")
    if output is None:
        if isinstance(policy, Policy):
            raise BadValue("say where a loaded policy is to be written: output")
        output = Path(policy) / "export" / names[format]
        if Path(policy).is_file():
            output = Path(policy).parent / names[format]
    policy = policy if isinstance(policy, Policy) else load(policy, which)
    if policy.actor.kind == "choices" and format != "numpy":
        raise BadValue(f"a policy with several choices at once is exported as numpy only, got format {format!r}")
    if "images" in policy.description and format != "numpy":
        raise BadValue(f"a policy that sees images is exported as numpy only, got format {format!r}")
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    if format == "numpy":
        write_numpy(policy, path)
    elif format == "c":
        path.write_text(export_c.header(policy))
    else:
        from cvpo.policies.export_onnx import write_onnx

        write_onnx(policy, path)
    return path


def write_numpy(policy: Policy, folder: Path) -> None:
    """A folder: policy.py (the very file that cvpo acts with), policy.json, weights.npz and how to use them."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(actor.__file__, folder / "policy.py")
    np.savez(folder / "weights.npz", **policy.arrays)  # type: ignore[arg-type]
    (folder / "policy.json").write_text(to_json(policy.description, indent=2) + "\n")
    (folder / "README.txt").write_text(
        _USE.format(size=policy.description["observation"]["size"], dtype=_dtype(policy))
    )
    again = actor.Actor(json.loads((folder / "policy.json").read_text()), dict(np.load(folder / "weights.npz")))
    observations = probes(policy)
    require_equal(policy, policy.actor(observations), again(observations), folder)


def _dtype(policy: Policy) -> str:
    return "uint8" if "images" in policy.description else "float32"


def probes(policy: Policy, count: int = 256) -> np.ndarray:
    """Random observations [B, D] where the policy has been, and far from it."""
    rng = np.random.default_rng(0)
    layout = policy.description["observation"]["layout"]
    if images := images_of(layout):
        pixels = sum(map(math.prod, images))
        bytes_ = rng.integers(0, 256, (count, pixels), np.uint8)
        numbers = rng.standard_normal((count, (size_of(layout) - pixels) // 4)).astype(np.float32)
        return np.concatenate([bytes_, numbers.view(np.uint8)], axis=1)
    noise = rng.standard_normal((count, policy.description["observation"]["size"]))
    noise[::4] *= 30.0
    centre, deviation = (policy.arrays.get(f"observation/{name}", default) for name, default in _UNSCALED)
    # an observation that never varied has a deviation beyond what can be multiplied
    return (centre + np.minimum(deviation, _FAR) * noise).astype(np.float32)


_FAR = 1e6
_UNSCALED = (("mean", np.float32(0)), ("deviation", np.float32(1)))


def require_equal(policy: Policy, expected: np.ndarray, found: np.ndarray, path: Path) -> None:
    """Refuse an export whose actions are not those of the policy."""
    if policy.actor.kind in ("categorical", "choices"):
        # where two choices are nearly as likely, rounding decides
        difference = float(np.mean(expected != found))
        allowed = 0.01
    else:
        action = policy.description["action"]
        half = 0.5 * (np.array(action["high"]) - np.array(action["low"])).reshape(action["shape"])
        half = np.where(half > 0, half, 1.0)  # a component whose bounds are one number
        difference = float(np.abs((expected - found) / half).max())
        allowed = TOLERANCE
    if not difference <= allowed:
        raise RuntimeError(f"{path} does not act as the policy does: the actions differ by {difference:g}")
