"""What a run says: commands that can be pasted, how it ended, and what it does to images."""

import math
import shlex
from pathlib import Path

import pytest

from cvpo.algorithms.base import Spec
from cvpo.training import messages

SPEC = Spec(obs_size=1, action_size=1, discrete=False, cost_limits=(10.0,), episode_length=5)
METRICS = {
    "steps": 12_000, "wall_seconds": 61.7, "eval/episodes": 10, "eval/reward": 3.14159, "eval/cost": 11.0,
    "train/episodes": 5, "train/reward": 1.0, "train/cost": 2.0,
}  # fmt: skip


def test_the_command_to_resume_can_be_pasted():
    hint = messages.resume_hint(Path("my runs/a'b"), "Point-Goal")
    assert shlex.split(hint.removeprefix("resume with: ")) == ["cvpo", "train", "--resume", "my runs/a'b"]
    on_ray = messages.resume_hint(Path("x"), "module:id", "host:6379")
    assert on_ray == "resume with: cvpo train --resume x --envs-on-ray host:6379 --trust"
    assert messages.resume_hint(Path("x"), None) == "resume with: cvpo.train(..., run_dir='x', resume=True)"


def test_the_end_says_what_the_policy_earns_and_costs_and_what_to_do_next():
    assert messages.summary(METRICS, SPEC, Path("a run"), "Point-Goal") == [
        "done: 12,000 steps in 0:01:02",
        "policy: reward 3.14, cost 11.00 (above the limit of 10); mean of 10 episodes without noise",
        "run directory: a run",
        "next: cvpo evaluate 'a run'",
        "      cvpo render 'a run'",
        "      cvpo report 'a run'",
    ]


def test_the_end_of_a_run_that_was_not_evaluated_and_of_an_environment_that_no_command_makes():
    metrics = {name: value for name, value in METRICS.items() if not name.startswith("eval/")}
    lines = messages.summary(metrics, SPEC, Path("run"), None)
    assert lines[1] == "policy: reward 1.00, cost 2.00 (within the limit of 10); mean of 5 episodes with noise"
    assert lines[-1] == "next: cvpo.evaluate('run', env), or: cvpo report run"


def test_several_costs_and_one_without_a_limit():
    spec = Spec(obs_size=1, action_size=1, discrete=False, cost_limits=(1.0, math.inf), episode_length=5)
    metrics = METRICS | {"eval/cost_0": 0.5, "eval/cost_1": 7.0}
    tail = METRICS | {"eval/constrained_cost": 12.5}
    assert "cost 12.50 (above the limit of 10);" in messages.summary(tail, SPEC, Path("run"), None)[1]
    assert "cost 0.50 (within the limit of 1), 7.00;" in messages.summary(metrics, spec, Path("run"), None)[1]


@pytest.mark.parametrize(
    ("layout", "images"),
    [
        ({"image": [84, 84, 3]}, False),  # a convolutional network sees it
        ({"box": [84, 84, 3]}, True),
        ({"box": [3, 64, 64]}, True),
        ({"box": [32, 32]}, True),
        ({"dict": [["speed", {"box": [3]}], ["camera", {"box": [64, 48, 3]}]]}, True),
        ({"tuple": [{"box": [3]}, {"one_hot": 4, "start": 0}]}, False),
        ({"box": [200]}, False),
        ({"box": [3, 3]}, False),
        ({"box": [2, 100]}, False),
    ],
)
def test_observations_that_look_like_images_are_named(layout, images):
    assert bool(messages.flattened_images(layout)) is images
