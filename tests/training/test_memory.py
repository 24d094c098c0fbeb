"""What a long run keeps in memory."""

import os
import subprocess
import sys

import pytest


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
