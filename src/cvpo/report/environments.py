"""Environments that bear one name and are not the same: runs in them are never taken for seeds of one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cvpo.report.load import LONGEST_NAME, RunRecord


def name_environments(runs: Sequence[RunRecord]) -> list[str]:
    """The environment of each run. Different ones of one name are told apart by what made them, or else by number.

    A run that stored no more than the name is taken for one of the first environment with it.
    """
    found: dict[str, list[str]] = {}  # what each name stands for
    for run in runs:
        known = found.setdefault(run.env, [])
        if run.environment is not None and _text(run.environment) not in known:
            known.append(_text(run.environment))

    def name(run: RunRecord) -> str:
        known = found[run.env]
        if len(known) < 2:
            return run.env
        index = 0 if run.environment is None else known.index(_text(run.environment))
        makers = [_maker(json.loads(text)) for text in known]
        maker = makers[index]
        telling = makers.count(maker) == 1 and len(maker) < LONGEST_NAME and maker.isprintable()
        return f"{run.env} [{maker if telling else index + 1}]"

    return [name(run) for run in runs]


def _text(environment: dict[str, Any]) -> str:
    return json.dumps(environment, sort_keys=True)


def _maker(environment: dict[str, Any]) -> str:
    """As a call: toys.Bandit(size=2)."""
    arguments = environment.get("arguments")
    given = arguments.items() if isinstance(arguments, dict) else ()
    called = ", ".join(f"{value!r}" if key.isdigit() else f"{key}={value!r}" for key, value in given)
    return f"{environment.get('made_by')}({called})" if called else str(environment.get("made_by"))
