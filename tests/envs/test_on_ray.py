"""Environments as actors of a real Ray cluster, of which a machine is lost."""

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from saved_runs import untimed
from toys import Bandit
from worker_envs import Trouble

import cvpo
from cvpo.envs.adapter import Environments
from cvpo.envs.errors import BadEnvironment, CopiesLost, EnvironmentFailed, EnvironmentTimeout, WorkerDied
from cvpo.errors import UserError
from cvpo.runs.directory import read_config

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
TINY = {
    "envs": 4, "eval_episodes": 3, "eval_every": 1, "hidden": (8,), "batch_size": 16, "particles": 4,
    "episode_length": 10, "random_epochs": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    """A head without room for environments, and two machines with two CPUs each."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_TMPDIR", "/tmp")  # its sockets need short names
        patch.setenv("RAY_worker_niceness", "0")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            cluster.add_node(num_cpus=2)
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


def train(env, path, steps, **config):
    return cvpo.train(env, steps=steps, cost_limit=3.0, run_dir=path, quiet=True, config=TINY | config)


class SlowBandit(Bandit):
    def step(self, action):
        time.sleep(0.02)
        return super().step(action)


def test_a_lost_machine_is_replaced_and_the_run_is_the_undisturbed_one(cluster, tmp_path):
    epochs, steps = 20, 20 * 4 * 10  # long enough for a busy machine to lose a node meanwhile
    undisturbed = train(SlowBandit, tmp_path / "here", steps)
    victim, killed = cluster.list_all_nodes()[-1], threading.Event()

    def kill():
        metrics = tmp_path / "there" / "metrics.jsonl"
        while not (metrics.exists() and metrics.read_text()):
            time.sleep(0.01)
        time.sleep(0.1)  # into the second epoch
        cluster.remove_node(victim, allow_graceful=False)
        killed.set()

    threading.Thread(target=kill, daemon=True).start()
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cvpo.training.display.Display.message", lambda self, text: told.append(text))
        there = train(SlowBandit, tmp_path / "there", steps, envs_on_ray=cluster.address)
    assert killed.is_set() and any("lost at step" in text and "begun again" in text for text in told)
    assert len(there.metrics()) == epochs and untimed(there.path) == untimed(undisturbed.path)
    # elsewhere, or without a cluster, it goes on as the same run
    config = read_config(there.path)["config"] | {"envs_on_ray": None}
    resumed = cvpo.train(
        SlowBandit, steps=steps + 40, cost_limit=3.0, run_dir=there.path, quiet=True, resume=True, config=config
    )
    assert len(resumed.metrics()) == epochs + 1


def test_a_killed_actor_is_made_anew_by_the_next_reset(cluster):
    with Environments(Bandit, 2, episode_length=10, ray=cluster.address) as envs:
        first = envs.reset([1, 2])
        pid = ray.get(envs._copies._actors[1].__ray_call__.remote(lambda self: os.getpid()))
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(CopiesLost, match=r"Bandit: environment 1 of 2 lost at step 1 of the epoch"):
            envs.step(np.zeros((2, 1)))
        np.testing.assert_array_equal(envs.reset([1, 2]), first)
        assert envs.step(np.zeros((2, 1))).costs.tolist() == [[0.5], [0.5]]


def test_what_goes_wrong_there_is_told_here(cluster, tmp_path):
    for what, error, text in (
        ("raise", EnvironmentFailed, r"(?s)exploded.*Trouble, environment 1 of 2, at step 3.*in _raise"),
        ("exit", EnvironmentFailed, r"goodbye.*environment 1 of 2, at step 3"),
        ("sleep", EnvironmentTimeout, r"Trouble, environment 1 of 2, at step 3 of its epoch, did not answer"),
        ("kill", CopiesLost, "environment 1 of 2 lost at step 3"),
    ):
        with Environments(
            partial(Trouble, what, 8),
            2,
            episode_length=5,
            ray=cluster.address,
            timeout=2.0 if what == "sleep" else None,
        ) as envs:
            envs.reset([7, 8])
            with pytest.raises(error, match=text):
                for _ in range(3):
                    envs.step(np.zeros((2, 1)))
    # one that ends its process each time is not tried for ever
    seeds = np.random.SeedSequence([0, 0, 0]).generate_state(4)
    with pytest.raises(WorkerDied, match="environment 2 of 4 lost at step 3"):
        train(partial(Trouble, "kill", int(seeds[2])), tmp_path, 20, envs_on_ray=cluster.address, episode_length=5)


def test_an_environment_of_another_interpreter_and_a_name(cluster):
    other = cvpo.remote("toys:Bandit", python=sys.executable)
    seen = []
    for source in (other, "toys:Bandit", Bandit):
        with Environments(source, 2, episode_length=10, ray=cluster.address) as envs:
            seen.append((envs.reset([1, 2]).tolist(), envs.step(np.full((2, 1), 0.5)).reward.tolist()))
    assert seen[0] == seen[1] == seen[2]


def test_refusals(cluster):
    from gymnasium.vector import SyncVectorEnv

    with pytest.raises(BadEnvironment, match="leave out envs_on_ray"):
        Environments(lambda: SyncVectorEnv([Bandit] * 2), 2, episode_length=10, ray=cluster.address)
    with pytest.raises(UserError, match="cannot import 'no_such_module'"):
        Environments("no_such_module:Env", 2, ray=cluster.address)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "ray://127.0.0.1:10001"])
def test_an_address_where_no_cluster_is(address, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(UserError, match=rf"no Ray cluster answers at '{address}'"):
        Environments(Bandit, 1, episode_length=10, ray=address)
