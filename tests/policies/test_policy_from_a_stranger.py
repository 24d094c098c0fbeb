"""A policy file from anybody: it acts, or one clear line names the file and what is wrong with it, at once."""

import copy

import numpy as np
import pytest

import cvpo
from cvpo.errors import UserError
from cvpo.policies.export import export
from cvpo.runs.array_file import read_arrays, write_arrays


def changed(*path, to):
    """A description with another value at this place; `to=...` removes it."""

    def change(info, arrays):
        inner = info
        for key in path[:-1]:
            inner = inner[key]
        if to is ...:
            del inner[path[-1]]
        else:
            inner[path[-1]] = to

    return change


def with_array(name, array):
    return lambda info, arrays: arrays.update({name: array}) if array is not None else arrays.pop(name)


def very_deep(info, arrays):
    for i in range(3_000):
        arrays[f"actor/layer_{i}/weight"], arrays[f"actor/layer_{i}/bias"] = np.eye(2), np.zeros(2)


BAD = {
    "no kind": (changed("kind", to=...), "lacks 'kind'"),
    "another kind": (changed("kind", to="oracle"), "holds no policy that can act"),
    "kind a number": (changed("kind", to=3), "'kind' in .* must be text"),
    "another activation": (changed("activation", to="exec"), "holds no policy that can act: KeyError 'exec'"),
    "no action": (changed("action", to=...), "lacks 'action'"),
    "action without bounds": (changed("action", "low", to=...), "holds no policy that can act"),
    "bounds of text": (changed("action", "low", to="low"), "holds no policy that can act"),
    "bounds of another size": (changed("action", "high", to=[1.0] * 5), "holds no policy that can act"),
    "dtype that is none": (changed("action", "dtype", to="__import__"), "holds no policy that can act"),
    "dtype of objects": (changed("action", "dtype", to="O"), "holds no policy that can act"),
    "shape beyond memory": (changed("action", "shape", to=[10**15]), "holds no policy that can act"),
    "noise a list": (changed("noise", to=[1]), "holds no policy that can act"),
    "noise without its numbers": (changed("noise", to={"from": "network"}), "holds no policy that can act"),
    "size that is not the layout's": (changed("observation", "size", to=8), "and another one by their layout"),
    "size beyond memory": (changed("observation", "size", to=10**15), "and another one by their layout"),
    "layout of nothing": (changed("observation", "layout", to={}), "holds no policy that can act"),
    "clip a text": (changed("observation_clip", to="far"), "holds no policy that can act"),
    "training unknown": (changed("trained", to=[]), "'trained' in .* must be an object"),
    "limits of text": (changed("trained", "cost_limits", to=["low"]), "must be a number"),
    "length a text": (changed("trained", "episode_length", to="long"), "must be a whole number"),
    "version of tomorrow": (changed("policy_version", to=99), "written by another version of cvpo"),
    "weights NaN": (with_array("actor/mean/bias", np.full(3, np.nan, np.float32)), "NaN or infinite"),
    "weights that overflow": (with_array("actor/mean/bias", np.full(3, 3e38, np.float32)), None),
    "weights of another size": (with_array("actor/mean/weight", np.zeros((3, 3), np.float32)), "can act: ValueError"),
    "weights missing": (with_array("actor/mean/weight", None), "no policy that can act: KeyError 'actor/mean/weight'"),
    "3,000 layers": (very_deep, "arrays; at most 1,000 are read"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_act_is_refused_with_its_reason(made, tmp_path, case):
    change, words = BAD[case]
    arrays, info = read_arrays(made("cvpo").run / "policy" / "policy.safetensors")
    info = copy.deepcopy(info)
    change(info, arrays)
    write_arrays(tmp_path / "stranger.safetensors", arrays, info)
    if words is None:  # odd, but it can act
        assert np.isfinite(cvpo.load(tmp_path / "stranger.safetensors")(np.zeros(7))).all()
        return
    with pytest.raises(UserError, match=words) as caught:
        cvpo.load(tmp_path / "stranger.safetensors")
    assert "stranger.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_a_name_puts_no_code_into_the_c_header(made, tmp_path):
    policy = cvpo.load(made("cvpo").run)
    for key in ("algorithm", "environment"):
        policy.trained[key] = "x */ static int owned = 1; /* \\\n#define policy evil ??/ ü"
    text = export(policy, tmp_path / "policy.h", "c").read_text()
    comment, _, code = text.partition("*/")
    assert comment.count("/*") == 1 and comment.count("\n") == 2 and comment.isascii()
    assert code.startswith("\n#ifndef CVPO_POLICY_H\n") and "owned" not in code


def test_trying_it_out_leaves_no_trace(made):
    first, second = cvpo.load(made("cvpo").run), cvpo.load(made("cvpo").run)
    second.seed(0)
    observation = made("cvpo").observations[0]
    np.testing.assert_array_equal(first(observation, deterministic=False), second(observation, deterministic=False))
