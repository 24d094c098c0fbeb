"""Runs: what they write, how they resume, and what they refuse."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from safetensors.numpy import load_file
from toys import Bandit, Menu

import cvpo
from cvpo import cli
from cvpo.algorithms.offpolicy import sac
from cvpo.envs.errors import BadEnvironment
from cvpo.envs.rollout import Diverged
from cvpo.errors import BadValue, UserError
from cvpo.policies.render import render
from cvpo.presets import make_config
from cvpo.runs.checkpoint import CheckpointStore
from cvpo.runs.directory import RunDirectoryError, read_config, read_metrics

TINY = {
    "envs": 2,
    "eval_every": 1,
    "hidden": (8,),
    "batch_size": 16,
    "particles": 4,
    "eval_episodes": 2,
    "update_ratio": 0.05,
}


def bandit(tmp_path, steps=80, **options):
    options = {
        "cost_limit": 3.0,
        "run_dir": tmp_path / "run",
        "quiet": True,
        "config": TINY | {"episode_length": 10},
    } | options
    return cvpo.train(Bandit, steps=steps, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of four epochs that nothing disturbed."""
    return bandit(tmp_path_factory.mktemp("whole"))


def untimed(metrics):
    return [{k: v for k, v in line.items() if k != "wall_seconds" and not k.startswith("time/")} for line in metrics]


def test_a_run_says_which_settings_are_not_the_presets(whole):
    config, preset = read_config(whole.path), make_config("cvpo")
    changed = {**TINY, "episode_length": 10}
    assert config["changed"].keys() == {name for name, value in changed.items() if value != getattr(preset, name)}
    assert config["changed"]["batch_size"] == preset.batch_size != config["config"]["batch_size"]


def test_a_run_writes_what_it_documents(whole):
    metrics = whole.metrics()
    assert [line["epoch"] for line in metrics] == [0, 1, 2, 3]
    assert [line["steps"] for line in metrics] == [20, 40, 60, 80]
    documented = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    assert [key for key in metrics[-1] if f"`{key}`" not in documented] == []
    config = read_config(whole.path)
    assert config["config"]["batch_size"] == 16 and config["seed"] == 0 and config["provenance"]["versions"]["jax"]
    # a reward of a and a cost of (a + 1) / 2 in each of ten rounds
    for line in metrics:
        assert line["train/cost"] == pytest.approx((line["train/reward"] + 10) / 2, abs=1e-4)
    total = sum(line["train/cost"] * line["train/episodes"] for line in metrics)
    assert metrics[-1]["train/cumulative_cost"] == pytest.approx(total, rel=1e-5)


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path, whole):
    bandit(tmp_path, steps=40)
    parts = bandit(tmp_path, resume=True)
    assert untimed(parts.metrics()) == untimed(whole.metrics())
    for a, b in zip(weights(whole.path), weights(parts.path), strict=True):
        np.testing.assert_array_equal(a, b)


def weights(path):
    newest = max((path / "checkpoints").glob("epoch-*.safetensors"))
    arrays = load_file(newest) | load_file(path / "policy" / "policy.safetensors")
    return [arrays[name] for name in sorted(arrays)]


def test_a_run_killed_right_after_its_last_checkpoint_has_its_last_policy(tmp_path, monkeypatch, whole):
    save = CheckpointStore.save

    def save_and_die(store, epoch, *state):
        save(store, epoch, *state)
        if epoch == 3:
            raise SystemExit

    monkeypatch.setattr(CheckpointStore, "save", save_and_die)
    with pytest.raises(SystemExit):
        bandit(tmp_path)
    resumed = bandit(tmp_path, resume=True)  # no epoch is left that would write anything
    for a, b in zip(weights(whole.path), weights(resumed.path), strict=True):
        np.testing.assert_array_equal(a, b)


def test_kill_nine_and_resume_on_a_real_task(tmp_path):
    """Killed in the middle of an epoch, a run ends with the metrics and weights of one that was never stopped."""

    def command(path, *more):
        flags = "--envs 2 --hidden 8 --batch-size 16 --particles 4 --eval-episodes 1 --update-ratio 0.05"
        begin = ["train", "Car-Circle", "--steps", "2400", "--run-dir", str(path), *flags.split()]
        return [sys.executable, "-m", "cvpo", *(more or begin), "--quiet"]

    subprocess.run(command(tmp_path / "whole"), check=True)
    process = subprocess.Popen(command(tmp_path / "killed"))
    metrics = tmp_path / "killed" / "metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\n") < 2:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(read_metrics(tmp_path / "killed")) < 4
    subprocess.run(command(None, "train", "--resume", str(tmp_path / "killed")), check=True)
    whole, killed = (untimed(cvpo.Run(tmp_path / name).metrics()) for name in ("whole", "killed"))
    assert killed == whole
    for a, b in zip(weights(tmp_path / "whole"), weights(tmp_path / "killed"), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("number", "code", "processes"),
    [(signal.SIGTERM, 143, False), (signal.SIGINT, 130, False), (signal.SIGINT, 130, True)],
)
def test_signals_leave_a_run_that_resumes(tmp_path, number, code, processes):
    script = f"""
import sys; sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r})
from toys import Bandit
import cvpo
config = {TINY | {"episode_length": 10, "processes": processes}!r}
cvpo.train(Bandit, steps=10**9, cost_limit=3.0, run_dir={str(tmp_path / "run")!r}, config=config)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\n") < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    os.killpg(process.pid, number)  # as a terminal's Ctrl-C, which reaches the environments' processes too
    out, err = process.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert process.returncode == code, err
    else:
        assert "KeyboardInterrupt" in err  # a script stops as Python scripts do; the command exits with 130
    assert f"stopped by {signal.Signals(number).name}" in out and "are saved" in out and "resume=True" in out
    assert "stopping after this step" in out  # at once, whatever it was doing
    saved = len(cvpo.Run(tmp_path / "run").metrics())
    assert not processes or err.count("Traceback") == 1  # the script's own, none of an environment
    resumed = bandit(
        tmp_path, steps=20 * (saved + 1), resume=True, config=TINY | {"episode_length": 10, "processes": processes}
    )
    assert len(resumed.metrics()) == saved + 1


def test_a_custom_environment_of_twenty_lines_trains(tmp_path):
    class Walk(gym.Env):
        observation_space = gym.spaces.Box(-5, 5, (1,), np.float32)
        action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.x, self.time = self.np_random.uniform(-1, 1, 1).astype(np.float32), 0
            return self.x, {}

        def step(self, action):
            self.x = np.clip(self.x + 0.3 * action, -5, 5).astype(np.float32)
            self.time += 1
            return self.x, float(self.x[0]), False, self.time == 20, {"cost": float(self.x[0] > 1)}

    run = cvpo.train(
        Walk, steps=6000, cost_limit=2.0, run_dir=tmp_path, quiet=True,
        config={
            "episode_length": 20, "envs": 10, "eval_every": 1, "hidden": (32,), "batch_size": 64, "update_ratio": 0.5,
            "gamma": 0.9,
        },
    )  # fmt: skip
    first, last = run.metrics()[0], run.metrics()[-1]
    assert last["eval/reward"] > first["eval/reward"] + 5
    again = cvpo.evaluate(run.path, Walk, episodes=5, seed=1)
    assert again["reward"] > 0 and len(again["costs"]) == 5


def test_several_constraints_have_metrics_of_their_own(tmp_path):
    run = cvpo.train(
        lambda: Bandit(2), steps=40, cost_limit=[2.0, 40.0], run_dir=tmp_path, quiet=True,
        config=TINY | {"episode_length": 10},
    )  # fmt: skip
    last = run.metrics()[-1]
    names = ("train/cost", "eval/cost", "train/cumulative_cost", "estep/multiplier", "estep/threshold")
    assert all(f"{name}_{i}" in last and name not in last for name in names for i in (0, 1))
    result = cvpo.evaluate(run.path, lambda: Bandit(2), episodes=3)
    assert all(heavy > 2.0 and light < 40.0 for heavy, light in result["costs"])
    assert result["satisfied"] == 0.0


def test_tensorboard_events(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = bandit(tmp_path, tensorboard=True)
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    rewards = [(event.step, event.value) for event in events.Scalars("train/reward")]
    assert rewards == [(line["steps"], pytest.approx(line["train/reward"])) for line in run.metrics()]


def test_the_policy_keeps_its_normalizer(tmp_path):
    run = bandit(tmp_path, config=TINY | {"episode_length": 10, "normalize_observations": True})
    policy = run.policy()
    metrics = run.metrics()[-1]
    assert np.isfinite(metrics["eval/reward"])
    arrays = load_file(run.path / "policy" / "policy.safetensors")
    # what Bandit shows is uniform on [-1, 1], and every step of the run was seen
    np.testing.assert_allclose(arrays["observation/mean"], 0.0, atol=0.25)
    np.testing.assert_allclose(arrays["observation/deviation"], 3**-0.5, atol=0.15)
    assert policy(np.zeros(2)).shape == (1,)


@pytest.fixture(scope="module")
def policy(whole):
    return whole.policy()


class TestPolicy:
    def test_one_observation_or_a_batch(self, policy):
        batch = np.random.default_rng(0).uniform(-1, 1, (5, 2))
        actions = policy(batch)
        assert actions.shape == (5, 1) and isinstance(actions, np.ndarray) and actions.dtype == np.float32
        np.testing.assert_allclose(policy(batch[3]), actions[3], rtol=1e-6)

    def test_noise_follows_its_seed(self, policy):
        policy.seed(3)
        first = policy(np.zeros(2), deterministic=False)
        second = policy(np.zeros(2), deterministic=False)
        policy.seed(3)
        np.testing.assert_array_equal(policy(np.zeros(2), deterministic=False), first)
        assert first != second

    @pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((2, 2, 2)), np.array(["a", "b"]), np.array([np.nan, 0])])
    def test_a_wrong_observation_is_refused(self, policy, wrong):
        with pytest.raises(ValueError, match=r"observation must"):
            policy(wrong)


def test_discrete_policies_give_the_spaces_own_integers(tmp_path):
    run = cvpo.train(Menu, steps=20, cost_limit=1, run_dir=tmp_path, quiet=True, config=TINY | {"episode_length": 10})
    assert run.policy()(np.zeros((4, 1))).dtype.kind == "i"
    assert run.policy()(np.zeros(1)) in (0, 1, 2)


# What is refused, and what a user is told -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "cpvo"}, "no algorithm 'cpvo'; did you mean 'cpo' or 'cvpo'"),
        ({"cost_limit": -3}, "cost_limit must be >= 0, got -3"),
        ({"cost_limit": float("nan")}, "cost_limit must be >= 0, got nan"),
        ({"cost_limit": None}, "cvpo needs a cost_limit"),
        ({"steps": 0}, "steps must be >= 1, got 0"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
        ({"preset": "papre"}, "no preset 'papre'; did you mean 'paper'"),
        ({"config": {"batch_sise": 3}}, "no setting 'batch_sise'; did you mean 'batch_size'"),
        ({"config": {"batch_size": 2.5}}, "batch_size must be int, got 2.5"),
        ({"config": {"gamma": 1.5}}, "gamma must be between 0.0 and 1.0, got 1.5"),
        ({"config": {"replay_capacity": 10, "episode_length": 10}}, "replay_capacity 10 does not hold one epoch"),
    ],
)
def test_bad_settings(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        bandit(tmp_path, **options)
    assert not (tmp_path / "run").exists()  # or the mended command would be refused


def test_settings_of_another_method_are_refused(tmp_path):
    for algorithm, settings in (("sac", sac.LagConfig()), ("sac-lag", sac.Config())):
        with pytest.raises(BadValue, match=rf"{algorithm} takes .*sac\.(Lag)?Config, got .*sac\.(Lag)?Config"):
            bandit(tmp_path, algorithm=algorithm, config=settings)


def test_an_environment_that_a_callable_made_is_asked_for_again(tmp_path, whole, capsys):
    with pytest.raises(ValueError, match=r"a function made, Bandit.*pass env"):
        cvpo.evaluate(whole.path)
    with pytest.raises(ValueError, match=r"a function made, Bandit.*pass env"):
        render(whole.path, tmp_path / "film.gif")
    with pytest.raises(SystemExit):
        cli.main(["train", "--resume", str(whole.path)])
    assert "from Python: cvpo.train(THE_FUNCTION" in " ".join(capsys.readouterr().err.split())
    assert cvpo.evaluate(whole.path, Bandit, episodes=2)["episodes"] == 2


def test_an_evaluation_needs_the_costs_and_the_actions_of_the_training(whole):
    class Careless(Bandit):
        def step(self, action):
            return *super().step(action)[:4], {}

    class Wide(Bandit):
        def __init__(self):
            super().__init__()
            self.action_space = gym.spaces.Box(-2, 2, (1,))

    with pytest.raises(BadEnvironment, match="gives no cost"):
        cvpo.evaluate(whole.path, Careless)
    with pytest.raises(ValueError, match=r"trained on actions .*Wide has"):
        cvpo.evaluate(whole.path, Wide)


def test_an_epoch_without_updates_has_no_metrics_of_updates(tmp_path):
    first, second = bandit(tmp_path, steps=40, config=TINY | {"episode_length": 10, "update_ratio": 0.04}).metrics()
    assert "critic/reward_value" not in first and "critic/reward_value" in second


def test_unknown_task():
    with pytest.raises(BadEnvironment, match="'Point-Gaol'; did you mean 'Point-Goal'"):
        cvpo.train("Point-Gaol", steps=1)


def test_continuous_methods_refuse_discrete_actions(tmp_path):
    with pytest.raises(ValueError, match=r"(?s)Discrete.*cvpo"):
        cvpo.train(Menu, "sac-lag", steps=1, cost_limit=1, run_dir=tmp_path, quiet=True, config={"episode_length": 10})


def test_a_directory_with_a_run_is_never_overwritten_unasked(tmp_path):
    mark = bandit(tmp_path, steps=20).path / "finished.json"
    mark.write_text("{}")
    with pytest.raises(
        RunDirectoryError, match=r"already holds a run; resume it .*, choose another directory .*, or delete it"
    ):
        bandit(tmp_path, steps=20)
    assert mark.exists() and len(bandit(tmp_path, steps=40, overwrite=True).metrics()) == 2
    assert not mark.exists()  # it spoke of the run before


def test_a_run_without_checkpoints_is_not_begun_anew(tmp_path):
    run = bandit(tmp_path, steps=40)
    shutil.rmtree(run.path / "checkpoints")
    with pytest.raises(RunDirectoryError, match="holds 2 epochs and no checkpoint"):
        bandit(tmp_path, resume=True)
    assert len(run.metrics()) == 2 and read_config(run.path)["steps"] == 40


def test_an_extended_run_knows_for_how_long(tmp_path):
    run = bandit(tmp_path, steps=20)
    bandit(tmp_path, steps=40, resume=True)
    assert read_config(run.path)["steps"] == 40
    bandit(tmp_path, steps=20, resume=True)  # nothing to train, and nothing untrained
    assert len(run.metrics()) == 2 and read_config(run.path)["steps"] == 40


def test_a_task_is_the_same_by_its_gymnasium_id(tmp_path):
    runs = [
        cvpo.train(env, steps=800, run_dir=tmp_path / str(number), quiet=True, config=TINY)
        for number, env in enumerate(("Car-Goal", "cvpo/CarGoal-v0"))
    ]
    named, by_id = (read_config(run.path) for run in runs)
    assert named["cost_limit"] == by_id["cost_limit"] == [10.0]
    assert all(named[key] == by_id[key] for key in ("env", "source", "config"))


def test_resuming_with_other_settings_is_refused(tmp_path):
    bandit(tmp_path, steps=20)
    with pytest.raises(RunDirectoryError, match="batch_size is 16 there and 17 here"):
        bandit(tmp_path, resume=True, config=TINY | {"episode_length": 10, "batch_size": 17})
    with pytest.raises(RunDirectoryError, match="seed is 0 there and 1 here"):
        bandit(tmp_path, resume=True, seed=1)
    with pytest.raises(RunDirectoryError, match="algorithm is 'cvpo' there and 'sac-lag' here"):
        bandit(tmp_path, resume=True, algorithm="sac-lag", config={"episode_length": 10})


def test_a_checkpoint_of_another_observation_size_is_refused(tmp_path):
    bandit(tmp_path, steps=20)

    class Wider(Bandit):
        def __init__(self):
            super().__init__()
            self.observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)

        def _look(self):
            return np.zeros(3, np.float32)

    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["env"] = "Wider"
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    other = r"holds another run: environment is .*'box': \[2\].* there and .*'box': \[3\].* here"
    with pytest.raises(RunDirectoryError, match=other):
        cvpo.train(
            Wider, steps=40, cost_limit=3.0, run_dir=tmp_path / "run", quiet=True, resume=True,
            config=TINY | {"episode_length": 10},
        )  # fmt: skip


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path, whole):
    run = bandit(tmp_path, steps=60)
    newest = max((run.path / "checkpoints").glob("epoch-*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-10])
    with pytest.warns(UserWarning, match="epoch 2 is passed over"):
        resumed = bandit(tmp_path, steps=80, resume=True)
    assert untimed(resumed.metrics()) == untimed(whole.metrics())


@pytest.mark.parametrize(("env", "algorithm"), [(Bandit, "ppo-lag"), (Menu, "ppo-lag"), (Bandit, "sac-lag")])
def test_a_learner_that_diverges_is_told_so_and_not_saved(tmp_path, env, algorithm):
    settings = {"episode_length": 10, "hidden": (8,), "envs": 2, "eval_episodes": 1, "policy_learning_rate": 1e38}
    with pytest.raises(Diverged, match="learning diverged"):
        cvpo.train(env, algorithm, steps=400, cost_limit=3.0, run_dir=tmp_path, quiet=True, config=settings)
    finished = len(read_metrics(tmp_path))
    assert finished < 20  # the epoch that diverged is not among them, nor is its policy
    assert (tmp_path / "policy").exists() == (finished > 0)
    if finished:
        assert all(np.isfinite(array).all() for array in weights(tmp_path))


def test_a_non_finite_reward_stops_the_run_with_its_epochs_saved(tmp_path):
    class Breaks(Bandit):
        count = 0

        def step(self, action):
            obs, reward, terminated, truncated, info = super().step(action)
            Breaks.count += 1
            return obs, (np.nan if Breaks.count > 90 else reward), terminated, truncated, info

    with pytest.raises(BadEnvironment, match="non-finite reward, nan, in environment"):
        cvpo.train(
            Breaks, steps=200, cost_limit=3.0, run_dir=tmp_path, quiet=True, config=TINY | {"episode_length": 10}
        )
    assert len(cvpo.Run(tmp_path).metrics()) == 2
    assert max((tmp_path / "checkpoints").glob("epoch-*")).name == "epoch-000001.safetensors"


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path, monkeypatch):
    real, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 20:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((UserError, OSError)) as caught:
        bandit(tmp_path, steps=400)
    assert "No space left" in str(caught.value)
    monkeypatch.undo()
    saved = [path.name for path in (tmp_path / "run" / "checkpoints").glob("epoch-*")]
    assert saved
    assert len(bandit(tmp_path, steps=400, resume=True).metrics()) == 20


# What is kept of an error, of memory, and of a stop before the first epoch -------------------------------------------


def test_a_bug_in_an_environment_keeps_its_traceback_and_the_run_keeps_its_epochs(tmp_path):
    class Explodes(Bandit):
        count = 0

        def step(self, action):
            Explodes.count += 1
            if Explodes.count > 90:
                raise ZeroDivisionError("the simulator exploded")
            return super().step(action)

    def train(**options):
        config = TINY | {"episode_length": 10}
        return cvpo.train(Explodes, steps=100, cost_limit=3.0, run_dir=tmp_path, quiet=True, config=config, **options)

    with pytest.raises(ZeroDivisionError, match="the simulator exploded"):
        train()
    text = (tmp_path / "error.txt").read_text()
    assert 'raise ZeroDivisionError("the simulator exploded")' in text and "test_train.py" in text
    assert len(cvpo.Run(tmp_path).metrics()) == 2
    Explodes.count = -1000
    assert len(train(resume=True).metrics()) == 5
    assert not (tmp_path / "error.txt").exists()  # it spoke of an earlier process


def test_a_stop_is_no_error(tmp_path):
    class Stops(Bandit):
        count = 0

        def step(self, action):
            Stops.count += 1
            if Stops.count == 90:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().step(action)

    with pytest.raises(SystemExit) as caught:
        cvpo.train(
            Stops, steps=10**6, cost_limit=3.0, run_dir=tmp_path, quiet=True, config=TINY | {"episode_length": 10}
        )
    assert caught.value.code == 143
    assert not (tmp_path / "error.txt").exists() and len(cvpo.Run(tmp_path).metrics()) >= 2


def test_resuming_to_fewer_steps_says_that_there_is_nothing_to_do(tmp_path, capsys):
    bandit(tmp_path, steps=60)
    run = bandit(tmp_path, steps=20, resume=True, quiet=False)
    out = capsys.readouterr().out
    assert "the run has 60 steps already; ask for more (--steps) to continue it" in out
    assert len(run.metrics()) == 3 and len(bandit(tmp_path, steps=80, resume=True).metrics()) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 2.5}, "steps must be a whole number, got 2.5"),
        ({"steps": "100"}, "steps must be a whole number, got '100'"),
        ({"steps": None}, "steps must be a whole number, got None"),
        ({"seed": 0.5}, "seed must be a whole number, got 0.5"),
        ({"cost_limit": "low"}, "cost_limit must be a number, or one for each constraint, got 'low'"),
    ],
)
def test_numbers_that_are_none(tmp_path, options, message):
    with pytest.raises(BadValue, match=message):
        bandit(tmp_path, **options)
    assert not (tmp_path / "run").exists()


def test_numpys_numbers_are_numbers(tmp_path):
    config = TINY | {"episode_length": np.int64(10), "batch_size": np.int32(16), "hidden": np.array([8])}
    run = bandit(tmp_path, steps=np.int64(40), seed=np.uint8(1), cost_limit=np.float32(3.0), config=config)
    assert len(run.metrics()) == 2
    saved = read_config(run.path)
    assert saved["config"]["batch_size"] == 16 and saved["config"]["hidden"] == [8] and saved["seed"] == 1


def test_a_ctrl_c_during_start_up_is_not_lost(tmp_path):
    """It comes while Python imports JAX, for one, where exceptions may be swallowed."""
    script = f"""
import sys, os, signal
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "jax":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from cvpo.cli import main
main(["train", "Car-Circle", "--steps", "300", "--run-dir", {str(tmp_path / "run")!r}])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert "stopping after this step" in done.stdout + done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["cvpo", "ppo-lag"])
def test_memory_stays_where_it_is(tmp_path, algorithm):
    """500 epochs grow a process by less than 5 MB once everything is compiled and the replay is full.

    Pages that the allocator keeps for reuse are given back first: they come and go by some megabytes.
    """
    script = f"""
import sys; sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r})
import ctypes, gc, cvpo
from toys import Bandit
from cvpo.training.display import Display

page, sizes = __import__("resource").getpagesize(), []
shown = Display.epoch
def epoch(self, metrics):
    shown(self, metrics)
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    sizes.append(int(open("/proc/self/statm").read().split()[1]) * page / 2**20)
Display.epoch = epoch
config = {{"episode_length": 10, "envs": 2, "hidden": (8,), "eval_every": 10, "eval_episodes": 1}}
if {algorithm!r} == "cvpo":
    config |= {{"batch_size": 16, "particles": 4, "update_ratio": 0.05, "replay_capacity": 400}}
cvpo.train(Bandit, {algorithm!r}, steps=20 * 600, cost_limit=3.0, run_dir={str(tmp_path)!r}, config=config, quiet=True)
print(max(sizes[-100:]) - max(sizes[:100]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 5.0
