"""Runs that start from something: another run, its replay, demonstrations; and callbacks that end them."""

import jax
import numpy as np
import pytest
from bandit_runs import TINY as CVPO
from saved_runs import assert_same_arrays
from toys import Bandit

import cvpo
from cvpo.algorithms.base import Spec
from cvpo.algorithms.registry import build
from cvpo.errors import UserError
from cvpo.policies.record import Demonstrations, record_episodes
from cvpo.presets import make_config
from cvpo.runs.checkpoint import CheckpointStore
from cvpo.training.loop import asks_to_stop
from cvpo.training.record import record_replay
from cvpo.training.start import Sources
from cvpo.training.warm_start import read_checkpoint, warm_state

TINY = {"envs": 2, "hidden": (8,), "batch_size": 8, "episode_length": 10, "eval_episodes": 2, "eval_every": 1}
TINY |= {"replay_capacity": 200}


def train(path, algorithm="sac-lag", steps=40, config=None, **options):
    settings = {k: v for k, v in TINY.items() if algorithm != "ppo-lag" or k not in ("batch_size", "replay_capacity")}
    return cvpo.train(
        Bandit, algorithm, steps=steps, cost_limit=options.pop("cost_limit", 5.0), run_dir=path, quiet=True,
        config=settings | (config or {}), **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return train(tmp_path_factory.mktemp("source") / "run")


def test_a_warm_start_acts_as_its_source_before_the_first_update(tmp_path, source):
    warm = train(tmp_path / "warm", steps=20, cost_limit=2.0, init_from=source.path, config={"update_ratio": 1e-9})
    ours, theirs = warm.policy().arrays, source.policy().arrays
    for name in theirs:
        if name.startswith("actor/"):
            np.testing.assert_array_equal(ours[name], theirs[name])
    assert warm.policy().trained["cost_limits"] == [2.0]


def test_a_source_may_differ_in_what_is_not_learned(whole):
    def read(**settings):
        config = make_config("cvpo", overrides=CVPO | settings)
        spec = Spec(2, 1, False, (5.0,), episode_length=50)
        algorithm = build("cvpo", config, spec)
        start = Sources(init_from=whole.path).read(None, "cvpo", algorithm, config, spec, None)
        fresh = algorithm.init(jax.random.key(0))
        return fresh, warm_state(fresh, start.learned), start.learned

    fresh, warm, learned = read(envs=4, particles=7, update_ratio=2.0, constraint="quantile=0.9")
    np.testing.assert_equal(warm[1].policy, learned[1].policy)
    np.testing.assert_equal(warm[1].critics, learned[1].critics)
    assert warm[1].pool is fresh[1].pool and warm[1].solved is fresh[1].solved
    assert warm[1].cost_control is fresh[1].cost_control
    with pytest.raises(UserError, match=r"run does not fit this run: .*\['critics'\].* there and .* here"):
        read(hidden=(9,))


def test_a_warm_start_takes_the_replay_too_and_resumes_bit_for_bit(tmp_path, source):
    whole = train(tmp_path / "whole", init_from=source.path, init_replay=True)
    train(tmp_path / "parts", steps=20, init_from=source.path, init_replay=True)
    assert_same_arrays(train(tmp_path / "parts", resume=True).path, whole.path)
    assert (whole.path / "checkpoints" / "start.safetensors").exists()


def test_a_run_killed_in_its_first_checkpoint_starts_from_its_source_again(tmp_path, source, monkeypatch):
    def die_while_writing(store, epoch, *state):
        store.directory.mkdir()
        (store.directory / f"epoch-{epoch:06d}.safetensors.unfinished").write_bytes(b"half of it")
        raise SystemExit

    whole = train(tmp_path / "whole", steps=20, init_from=source.path)
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(CheckpointStore, "save", die_while_writing)
        train(tmp_path / "killed", steps=20, init_from=source.path)
    assert_same_arrays(train(tmp_path / "killed", steps=20, resume=True).path, whole.path)


def test_demonstrations_are_learned_from_first_and_resume_bit_for_bit(tmp_path, source):
    file = record_replay(source.path, tmp_path / "replay.npz")
    with np.load(file) as data:
        assert data["observation"].shape == (40, 2) and data["ended"].sum() == 4
        assert (data["action"] >= -1).all() and (data["action"] <= 1).all()
    whole = train(tmp_path / "whole", demonstrations=file)
    train(tmp_path / "parts", steps=20, demonstrations=file)
    file.unlink()  # a run has its own copy
    assert_same_arrays(train(tmp_path / "parts", resume=True).path, whole.path)


def test_episodes_of_a_policy_are_demonstrations(tmp_path, source):
    file = record_episodes(source.path, tmp_path / "episodes.npz", Bandit, episodes=3)
    with np.load(file) as data:
        assert len(data["reward"]) == 30 and data["ended"].sum() == 3
        np.testing.assert_allclose(data["reward"], data["action"][:, 0], rtol=1e-5)  # Bandit's reward
        np.testing.assert_allclose(data["cost"], (data["action"][:, 0] + 1) / 2, rtol=1e-5)
        np.testing.assert_array_equal(data["observation"][1:10], data["next_observation"][:9])
    train(tmp_path / "run", steps=20, demonstrations=file)


def test_the_cost_control_starts_anew_after_demonstrations(tmp_path):
    demonstrations = Demonstrations()
    for step in range(20):
        demonstrations.add(np.zeros(2), np.zeros(1), 0.0, 100.0, np.zeros(2), False, step % 7 == 6)
    file = demonstrations.save(tmp_path / "costly.npz")
    no_learning = {"update_ratio": 1e-9, "normalize_observations": False}  # so that both runs have the same episodes
    with_file = train(tmp_path / "with", steps=20, config=no_learning, demonstrations=file)
    without = train(tmp_path / "without", steps=20, config=no_learning)
    ours, theirs = (read_checkpoint(run.path).learner.penalty for run in (with_file, without))
    np.testing.assert_equal(ours, theirs)


def test_what_does_not_fit_is_refused(tmp_path, source):
    demonstrations = Demonstrations()
    demonstrations.add(np.zeros(3), np.zeros(1), 0.0, 0.0, np.zeros(3), False, True)
    file = demonstrations.save(tmp_path / "other.npz")
    for options, message in [
        ({"demonstrations": file}, "observation has 3 numbers a step, Bandit 2"),
        ({"demonstrations": tmp_path / "none.npz"}, "no demonstrations at"),
        ({"init_replay": True}, "init_from, which is not given"),
        ({"init_from": source.path, "algorithm": "sac"}, "its algorithm: sac-lag, here: sac"),
        ({"init_from": source.path, "cost_limit": [1.0, 2.0]}, "its constraints: 1, here: 2"),
        ({"demonstrations": file, "algorithm": "ppo-lag"}, "learns from its newest episodes only"),
        ({"init_from": tmp_path}, "holds no run"),
    ]:
        env_costs = {"config": {"cost_keys": ("cost", "cost")}} if "cost_limit" in options else {}
        with pytest.raises(UserError, match=message):
            train(tmp_path / "refused", **options, **env_costs)
    assert not (tmp_path / "refused").exists()


def test_a_callback_sees_every_epoch_and_may_stop(tmp_path):
    seen = []

    def stop_at_three(metrics):
        seen.append(metrics["epoch"])
        metrics.clear()  # a copy
        return "stop" if len(seen) == 3 else None

    run = train(tmp_path / "run", steps=200, on_epoch=stop_at_three)
    assert seen == [0, 1, 2] == [line["epoch"] for line in run.metrics()]
    # and goes on from there as if it had never stopped
    resumed, whole = train(tmp_path / "run", steps=80, resume=True), train(tmp_path / "whole", steps=80)
    assert_same_arrays(resumed.path, whole.path)
    with pytest.raises(UserError, match='returns "stop" or nothing, got True'):
        asks_to_stop(True)
