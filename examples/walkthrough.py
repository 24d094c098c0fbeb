# %% [markdown]
# # What a cost limit does
#
# A notebook as a script. Open it in VS Code, PyCharm or Jupyter (jupytext) and run it cell by cell. Or run all of it:
# `python examples/walkthrough.py`, which takes about two minutes.

# %%
import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import cvpo

# %% [markdown]
# ## An environment with a cost
#
# A car earns the distance it covers, and each step above the speed limit of 1 costs 1. An episode has 50 steps.


# %%
class Road(gym.Env):
    observation_space = gym.spaces.Box(0.0, 2.0, (1,), np.float32)  # speed
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)  # brake or accelerate

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.speed = self.np_random.uniform(0.0, 0.5)
        return np.array([self.speed], np.float32), {}

    def step(self, action):
        self.speed = float(np.clip(self.speed + 0.2 * action[0], 0.0, 2.0))
        info = {"cost": float(self.speed > 1.0)}
        return np.array([self.speed], np.float32), self.speed, False, False, info


# %% [markdown]
# ## Train with a limit, and without one

# %%
settings = {"episode_length": 50, "hidden": (64, 64), "batch_size": 128, "envs": 10}
runs = {
    limit: cvpo.train(
        Road, steps=20_000, cost_limit=limit, run_dir=f"runs/walkthrough/{limit:g}", overwrite=True, config=settings
    )
    for limit in (5.0, np.inf)
}

# %% [markdown]
# ## The learning curves
#
# Without a limit the car drives as fast as it can, and nearly every step costs 1. With the limit it learns to speed in
# a few steps only.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3))
for limit, run in runs.items():
    steps = [epoch["steps"] for epoch in run.metrics()]
    for axis, key in zip(axes, ("train/reward", "train/cost"), strict=True):
        axis.plot(steps, [epoch[key] for epoch in run.metrics()], label=f"limit {limit:g}")
        axis.set(xlabel="steps", ylabel=key)
axes[1].axhline(5, color="black", linestyle="--")
axes[0].legend()
figure.savefig("runs/walkthrough/curves.png")

# %% [markdown]
# ## How safe is it?

# %%
for limit, run in runs.items():
    result = cvpo.evaluate(run.path, Road, episodes=100, max_step_cost=1.0)
    print(f"limit {limit:g}: reward {result['reward']:.1f}, cost {result['cost']:.1f}; {result['verdict']}")

# %% [markdown]
# ## What the policy does
#
# Below the speed limit it accelerates. With a cost limit it brakes at the edge.

# %%
speeds = np.linspace(0, 2, 50, dtype=np.float32)[:, None]
figure, axis = plt.subplots(figsize=(5, 3))
for limit, run in runs.items():
    axis.plot(speeds, cvpo.load(run.path)(speeds), label=f"limit {limit:g}")
axis.set(xlabel="speed", ylabel="acceleration")
axis.legend()
figure.savefig("runs/walkthrough/policy.png")
