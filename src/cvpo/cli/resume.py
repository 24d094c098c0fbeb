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
    """
    from cvpo.presets import make_config
    from cvpo.runs.directory import read_config
    from cvpo.runs.trust import require_trust
    from cvpo.training.train import train

    saved = read_config(resume)
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
        config=make_config(saved["algorithm"], overrides=saved["config"]),
        quiet=quiet,
        tensorboard=tensorboard,
        wandb=wandb,
        watch=watch,
        name=saved["env"],
    )
