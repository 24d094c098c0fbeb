"""`cvpo train --resume RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from cvpo.cli.options import Switch, Trust, optional
from cvpo.errors import UserError


def resume(
    resume: Annotated[Path, tyro.conf.arg(metavar="RUN")],
    steps: Annotated[int | None, optional("INT", "what it was started for")] = None,
    quiet: Switch = False,
    tensorboard: Switch = False,
    wandb: Annotated[str | None, optional("PROJECT")] = None,
    watch: Switch = False,
    envs_on_ray: Annotated[str | None, optional("ADDRESS", "as it was started")] = None,
    trust: Trust = False,
) -> None:
    """Resume a run from its newest checkpoint. It keeps the settings that it was started with.

    Args:
        resume: The run directory.
        steps: Environment steps in total.
        quiet: Print nothing.
        tensorboard: Write TensorBoard events too (extra: tensorboard).
        wandb: Log to this Weights & Biases project too (extra: wandb).
        watch: Show the report's page of this run while it goes on: in the browser, or at the address that is printed.
        envs_on_ray: Run the environments on the Ray cluster at this address; local starts one here.
    """
    from cvpo.presets import make_config
    from cvpo.runs.directory import read_config
    from cvpo.runs.trust import require_trust, require_trusted_cluster
    from cvpo.training.train import train

    saved = read_config(resume)
    if envs_on_ray is None:
        require_trusted_cluster(saved["config"].get("envs_on_ray"), resume, trust)
    settings = saved["config"] | ({} if envs_on_ray is None else {"envs_on_ray": envs_on_ray})
    source = saved["source"]
    if source is None:
        raise UserError(
            f"{resume} was trained on an environment that a function made, {saved['env']}. Resume it from Python: "
            f"cvpo.train(THE_FUNCTION, ..., run_dir={str(resume)!r}, resume=True)"
        )
    train(
        require_trust(source, resume, trust, saved["config"].get("python")),
        saved["algorithm"],
        steps=saved["steps"] if steps is None else steps,
        seed=saved["seed"],
        cost_limit=saved["cost_limit"],
        run_dir=resume,
        resume=True,
        preset=saved["preset"],
        config=make_config(saved["algorithm"], overrides=settings),
        quiet=quiet,
        tensorboard=tensorboard,
        wandb=wandb,
        watch=watch,
        name=saved["env"],
    )
