"""What a run starts from, as a user asks for it: another run, its replay, a file of demonstrations."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax

from cvpo.algorithms.base import Algorithm, Spec
from cvpo.algorithms.config import LoopConfig, OffPolicyConfig
from cvpo.envs.adapter import Environments
from cvpo.errors import BadValue
from cvpo.runs.checkpoint import saved_epochs
from cvpo.runs.directory import CHECKPOINTS, read_config
from cvpo.training import own_data, warm_start
from cvpo.training.loop import Start


class Sources(NamedTuple):
    init_from: str | Path | None = None
    init_replay: bool = False
    demonstrations: str | Path | None = None

    def or_those_of(self, run: Path | None) -> Sources:
        """Those that a run to be resumed was started with."""
        if run is None:
            return self
        saved = read_config(run)
        return Sources(saved.get("init_from"), saved.get("init_replay", False), saved.get("demonstrations"))

    def described(self) -> dict[str, Any]:
        """For the run's config.json; paths that hold from anywhere."""
        paths = {name: str(Path(value).resolve()) for name, value in self._paths().items()}
        return {**paths, **({"init_replay": True} if self.init_replay else {})}

    def read(
        self,
        run: Path | None,
        name: str,
        algorithm: Algorithm,
        config: LoopConfig,
        spec: Spec,
        environments: Environments,
    ) -> Start:
        """Everything that is needed of the sources; of a run that has begun, what it kept of them."""
        if self.init_replay and self.init_from is None:
            raise BadValue("init_replay is the replay of the run in init_from, which is not given")
        if self.demonstrations is not None and self.init_replay:
            raise BadValue("a replay starts with demonstrations or with init_replay, got both")
        wants_data = self.init_replay or self.demonstrations is not None
        if wants_data and not isinstance(config, OffPolicyConfig):
            raise BadValue(
                f"{name} learns from its newest episodes only; data to start with is for methods with a replay"
            )
        data = own_data.kept(run / CHECKPOINTS) if run is not None else None
        if run is not None and (data is not None or not wants_data) and saved_epochs(run / CHECKPOINTS):
            return Start(data=data, learn=False)
        learned = None
        if self.init_from is not None:
            fresh = jax.eval_shape(algorithm.init, jax.random.key(0))
            checkpoint = warm_start.read_source(self.init_from, name, spec, fresh)
            learned = checkpoint.learner
            steps = warm_start.replay_steps(checkpoint) if self.init_replay else None
        if self.demonstrations is not None:
            steps = own_data.read_demonstrations(self.demonstrations, environments, spec)
        if wants_data:
            assert isinstance(config, OffPolicyConfig) and steps is not None
            envs = config.env_count(spec.episode_length)
            room = config.replay_capacity // (spec.episode_length * envs)
            data = own_data.pack(steps, spec, envs, max(1, room))
        return Start(learned, data, learn=self.demonstrations is not None)

    def _paths(self) -> dict[str, str | Path]:
        named = {"init_from": self.init_from, "demonstrations": self.demonstrations}
        return {name: value for name, value in named.items() if value is not None}
