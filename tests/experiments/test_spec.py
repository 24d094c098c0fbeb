"""Specs, grids and settings."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.experiments import RunSpec, grid
from cvpo.experiments.spec import is_finished, parse_settings
from cvpo.presets import make_config
from cvpo.runs.atomic import write_text
from cvpo.runs.strict_json import NON_FINITE

# Three words stand for the numbers that JSON lacks; runs/strict_json.py says so, and reads them as numbers.
TEXTS = st.text().filter(lambda text: text not in NON_FINITE)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 99),
    st.none() | st.lists(st.floats(0, 100), min_size=1, max_size=2).map(tuple),
    st.dictionaries(st.text(min_size=1), VALUES, max_size=3),
)
def test_a_spec_survives_json_and_names_one_directory(seed, limit, config):
    spec = RunSpec("Point-Goal", "cvpo", 100, seed, limit, "paper", config)
    assert RunSpec.from_json(spec.to_json()) == spec
    assert len(spec.path.parts) == 3 and all(len(part) <= 200 for part in spec.path.parts)


def test_directories_say_what_differs_from_the_defaults():
    assert str(RunSpec("Point-Goal", "cvpo", 100, 3).path) == "Point-Goal/cvpo/seed-3"
    spec = RunSpec("a:b/C-v0", "sac-lag", 100, 0, (2.5,), "paper", {"hidden": [8, 8], "batch_size": 16})
    assert str(spec.path) == "a-b-C-v0/sac-lag+paper+cost_limit=2.5+batch_size=16+hidden=8x8/seed-0"


def test_a_grid_has_every_combination_once_and_the_first_seed_of_all_first():
    specs = grid(["A", "B"], ["cvpo", "cpo"], range(3), 10, settings={"envs": [1, 2], "gamma": [0.9]})
    assert len(specs) == 24 and len({spec.path for spec in specs}) == 24
    assert [spec.seed for spec in specs] == [0] * 8 + [1] * 8 + [2] * 8
    with pytest.raises(ValueError, match="at least one value of seeds"):
        grid(["A"], ["cvpo"], [], 10)


def test_settings_are_read_with_their_types():
    texts = ["particles=16,32", "hidden=[64],[64,64]", "kl-constraint=False,true", "cost_signal=critic", "kl_stop=inf"]
    assert parse_settings(texts) == {
        "particles": [16, 32],
        "hidden": [[64], [64, 64]],
        "kl_constraint": [False, True],
        "cost_signal": ["critic"],
        "kl_stop": [float("inf")],
    }
    with pytest.raises(ValueError, match="key=value"):
        parse_settings(["particles"])


def test_what_cannot_be_trained_is_refused():
    for spec, words in (
        (RunSpec("Point-Gaol", "cvpo", 10), "Point-Goal"),
        (RunSpec("Point-Goal", "cpvo", 10), "did you mean .*'cvpo'"),
        (RunSpec("Point-Goal", "cvpo", 10, config={"particels": 3}), "particles"),
        (RunSpec("Point-Goal", "cvpo", 0), "steps must be >= 1, got 0"),
        (RunSpec("Point-Goal", "cvpo", 10, seed=-1), "seed must be >= 0, got -1"),
        (RunSpec("Pendulum-v1", "sac-lag", 10), "sac-lag needs a cost_limit"),
        (RunSpec("no_such_module:Pendulum-v1", "sac", 10), "cannot import 'no_such_module'"),
    ):
        with pytest.raises(ValueError, match=words):
            spec.check()


def test_names_that_others_know_are_not_refused():
    for elsewhere in ({"envs_on_ray": "auto"}, {"python": "python3.8"}):
        RunSpec("no_such_module:Pendulum-v1", "sac", 10, config=elsewhere).check()


def test_a_setting_is_given_once():
    with pytest.raises(ValueError, match=r"particles is set twice.*particles=a,b"):
        parse_settings(["particles=16", "particles=32"])


def test_a_run_is_finished_if_it_is_this_run_with_no_fewer_steps(tmp_path):
    spec = RunSpec("Point-Goal", "cvpo", 100)
    spec.write(tmp_path)
    assert not is_finished(spec, tmp_path)
    write_text(tmp_path / "finished.json", '{"steps": 100}')
    saved = dataclasses.asdict(make_config("cvpo", None, {}))
    about = {
        "env": spec.env, "source": spec.env, "algorithm": spec.algorithm, "steps": 100, "seed": 0,
        "cost_limit": [10.0], "preset": "default", "provenance": {"id": "x", "versions": {}},
    }  # fmt: skip
    write_text(tmp_path / "config.json", json.dumps(about | {"config": saved}))
    assert is_finished(spec, tmp_path)
    assert is_finished(RunSpec("Point-Goal", "cvpo", 50), tmp_path)
    assert not is_finished(RunSpec("Point-Goal", "cvpo", 101), tmp_path)
    assert not is_finished(RunSpec("Point-Goal", "cvpo", 100, preset="paper"), tmp_path)
    for other in ({"particles": saved["particles"] + 1}, {"a_setting_of_an_older_version": 1}):
        write_text(tmp_path / "config.json", json.dumps(about | {"config": saved | other}))
        assert not is_finished(spec, tmp_path)
