"""Exports act as the policy does, of every algorithm: ONNX Runtime, a folder of NumPy, a compiled C header."""

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest
from policies.made_policies import EVERY_POLICY, make_policy

import cvpo
from cvpo.errors import UserError
from cvpo.policies.export import export, probes, require_equal
from cvpo.policies.policy import Policy


def worst(policy, found, observations):
    expected = policy.actor(observations)
    if policy.actor.kind == "categorical":
        return np.mean(found != expected)
    return np.abs((found - expected) / (policy.actor._high - policy.actor._low).reshape(expected.shape[1:])).max()


@pytest.mark.parametrize(("name", "discrete"), EVERY_POLICY)
def test_onnx_acts_as_the_policy_does(made, tmp_path, name, discrete):
    onnxruntime = pytest.importorskip("onnxruntime")
    policy = cvpo.load(made(name, discrete).run)
    path = export(policy, tmp_path / "policy.onnx", "onnx")
    session = onnxruntime.InferenceSession(path.read_bytes())
    observations = made(name, discrete).observations
    (found,) = session.run(None, {"observation": observations})
    assert worst(policy, found, observations) <= 1e-5
    assert found.shape == policy(observations).shape


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(("name", "discrete"), EVERY_POLICY)
def test_the_c_header_acts_as_the_policy_does(made, tmp_path, name, discrete):
    policy = cvpo.load(made(name, discrete).run)
    header = export(policy, tmp_path / "policy.h", "c")
    (tmp_path / "policy.c").write_text(
        '#include "policy.h"\nvoid act(const float o[], float a[]) { policy(o, a); }\nint size = POLICY_ACTION_SIZE;\n'
    )
    library = tmp_path / "policy.so"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(tmp_path / "policy.c"), "-o", str(library), "-lm"], check=True)
    compiled = ctypes.CDLL(str(library))
    size = ctypes.c_int.in_dll(compiled, "size").value
    observations = np.concatenate([made(name, discrete).observations, probes(policy)])
    found = np.zeros((len(observations), size), np.float32)
    pointer = ctypes.POINTER(ctypes.c_float)
    for observation, action in zip(observations, found, strict=True):
        compiled.act(observation.ctypes.data_as(pointer), action.ctypes.data_as(pointer))
    found = found[:, 0] if discrete else found.reshape(len(found), *policy.actor._shape)
    assert worst(policy, found, observations) <= (0.01 if discrete else 1e-5)
    assert header.read_text().isascii()


@pytest.mark.parametrize(("name", "discrete"), [("cvpo", False), ("sac", False), ("td3", False), ("ppo", True)])
def test_the_numpy_folder_stands_alone(made, tmp_path, name, discrete):
    policy = cvpo.load(made(name, discrete).run)
    folder = export(policy, tmp_path / "robot")
    observations = made(name, discrete).observations
    np.save(tmp_path / "observations.npy", observations)
    script = """
import sys, time
import numpy as np
began = time.perf_counter()
import policy
act = policy.load()
actions = act(np.load("observations.npy"))
took = time.perf_counter() - began
np.save("actions.npy", actions)
act.seed(1); act(np.load("observations.npy"), deterministic=False)
unwanted = {"jax", "cvpo", "gymnasium", "scipy"} & set(sys.modules)
assert not unwanted, unwanted
"""
    # -I: nothing of this environment's paths but what is given
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); exec({script!r})"
    subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "actions.npy"), policy(observations))


@pytest.mark.parametrize("format", ["numpy", "onnx"])
def test_an_action_that_is_always_the_same_is_exported(made, tmp_path, format):
    if format == "onnx":
        pytest.importorskip("onnxruntime")
    policy = cvpo.load(made("cvpo").run)
    policy.description["action"]["high"][1] = policy.description["action"]["low"][1]
    assert export(Policy(policy.description, policy.arrays), tmp_path / "policy", format).exists()


def test_a_wrong_export_is_refused(made, tmp_path):
    policy = cvpo.load(made("cvpo").run)
    actions = policy(made("cvpo").observations)
    require_equal(policy, actions, actions + 1e-7, tmp_path)
    with pytest.raises(RuntimeError, match="does not act as the policy does"):
        require_equal(policy, actions, actions + 1e-3, tmp_path)


def test_bad_requests_get_a_clear_line(made, tmp_path):
    with pytest.raises(UserError, match="no policy at"):
        export(tmp_path)
    with pytest.raises(UserError, match="format must be one of numpy, c, onnx, got 'pickle'"):
        export(made("cvpo").run, format="pickle")
    with pytest.raises(UserError, match="say where"):
        export(cvpo.load(made("cvpo").run))


def test_an_export_is_written_beside_its_run(tmp_path):
    run = make_policy(tmp_path / "run", "td3").run
    assert export(run, format="c") == run / "export" / "policy.h"
