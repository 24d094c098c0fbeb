"""Navigation tasks of a user's own, from a dict, JSON or a TOML file; errors name the field."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cvpo.errors import BadValue, did_you_mean
from cvpo.tasks.description import KINDS, REWARDS, NavigationTask, Objects, Walls
from cvpo.tasks.safety_gym import BOXES

# The robots of Safety Gym; the paper's belong to its own tasks.
_ROBOTS = tuple(BOXES)
_DEFAULT_NAME = "my-task"
# field -> smallest value, and whether it may be that
_NUMBERS = {
    "arena": (0.0, False),
    "start_keepout": (0.0, True),
    "cost_limit": (0.0, True),
    "lidar_range": (0.0, False),
    "size": (0.0, False),
    "keepout": (0.0, True),
    "density": (0.0, False),
    "orbit": (0.0, True),
    "length": (0.0, False),
    "x": (0.0, False),
    "y": (0.0, False),
}
_FLAGS = ("cost", "rigid")
_TASK_FIELDS = (
    "name", "robot", "reward", "arena", "start", "start_keepout", "episode_length", "cost_limit", "lidar_range",
    "summary",
)  # fmt: skip
_WALL_FIELDS = ("x", "y", "length", "cost")


def parse(description: Mapping[str, Any], name: str = _DEFAULT_NAME) -> tuple[str, NavigationTask]:
    """The name of a described task, and what it is."""
    known = [*_TASK_FIELDS, "walls", *KINDS]
    for key in description:
        if key not in known:
            raise BadValue(f"a task has no field {key!r}{did_you_mean(key, known)}")
    for key, choices in (("robot", _ROBOTS), ("reward", tuple(REWARDS))):
        if description.get(key) not in choices:
            raise BadValue(f"{key} must be one of {', '.join(choices)}, got {description.get(key)!r}")
    robot = description["robot"]
    settings = {key: _value(key, description[key]) for key in _TASK_FIELDS if key in description}
    name = str(settings.pop("name", name))
    objects = tuple(_objects(kind, description[kind], robot) for kind in description if kind in KINDS)
    walls = Walls(**_fields("walls", description.get("walls", {}), _WALL_FIELDS))
    task = NavigationTask(**settings, objects=tuple(o for o in objects if o.number), walls=walls)
    _check(task)
    return name, task


def read(source: str | Path | Mapping[str, Any]) -> tuple[str, NavigationTask]:
    """The same from a TOML file, from JSON or from a dict."""
    if isinstance(source, Mapping):
        return parse(source)
    text = str(source)
    try:
        if text.startswith("{"):
            return parse(json.loads(text))
        path = Path(source)
        with path.open("rb") as file:
            return parse(tomllib.load(file), path.stem)
    except FileNotFoundError:
        raise BadValue(f"there is no file {text}") from None
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadValue(f"{text} describes no task: {error}") from None


def is_description(source: object) -> bool:
    """Whether it is read as a task of a user's own: a dict, JSON, or the name of a TOML file."""
    return isinstance(source, Mapping) or (
        isinstance(source, str | Path) and (str(source).startswith("{") or str(source).endswith(".toml"))
    )


def to_dict(name: str, task: NavigationTask) -> dict[str, Any]:
    """What `parse` makes the same task of."""
    described: dict[str, Any] = {"name": name}
    for key in _TASK_FIELDS[1:]:
        value = getattr(task, key)
        if value is not None and value != "":
            described[key] = list(value) if isinstance(value, tuple) else value
    for objects in task.objects:
        fields = dataclasses.asdict(objects)
        del fields["kind"], fields["info"]
        described[objects.kind] = fields | {"places": [list(place) for place in objects.places]}
    walls = {key: value for key, value in dataclasses.asdict(task.walls).items() if value is not None}
    return described | ({"walls": walls} if task.walls.places() else {})


def _objects(kind: str, fields: Any, robot: str) -> Objects:
    names = [field.name for field in dataclasses.fields(Objects) if field.name not in ("kind", "info")]
    settings = _fields(kind, fields, tuple(names))
    if kind == "push_box":
        # a box that the robot can push
        box = dataclasses.asdict(BOXES[robot])
        settings = {key: box[key] for key in ("size", "keepout", "density")} | settings
    if kind == "circle":
        settings.setdefault("places", ((0.0, 0.0),))
    places = settings.get("places", ())
    settings.setdefault("number", len(places) or 1)
    objects = Objects(kind, **settings)
    if places and len(places) != objects.number:
        raise BadValue(f"{kind}.places must be {objects.number}, as {kind}.number says, got {len(places)}")
    if objects.number > 1 and not KINDS[kind].many:
        raise BadValue(f"{kind}.number must be 1, got {objects.number}")
    if objects.cost and not KINDS[kind].costs:
        costly = ", ".join(name for name, other in KINDS.items() if other.costs)
        raise BadValue(f"{kind}.cost must be left out: it cannot cost; what can is {costly}")
    if objects.rigid and kind != "gremlins":
        raise BadValue(f"{kind}.rigid must be left out or false: only gremlins can be rigid")
    return objects


def _fields(table: str, fields: Any, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(fields, Mapping):
        raise BadValue(f"{table} must be a table of settings, such as {{number = 4}}, got {fields!r}")
    for key in fields:
        if key not in names:
            raise BadValue(f"{table} has no field {key!r}{did_you_mean(key, names)}")
    return {key: _value(f"{table}.{key}", value) for key, value in fields.items()}


def _value(path: str, value: Any) -> Any:
    """The value of a field, checked."""
    key = path.rpartition(".")[2]
    if key in _NUMBERS:
        least, included = _NUMBERS[key]
        number = _number(path, value)
        if number < least or (number == least and not included):
            raise BadValue(f"{path} must be {'>=' if included else '>'} {least:g}, got {value!r}")
        return number
    if key in _FLAGS and not isinstance(value, bool):
        raise BadValue(f"{path} must be true or false, got {value!r}")
    if key in ("number", "episode_length"):
        least = 0 if key == "number" else 1
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise BadValue(f"{path} must be a whole number >= {least}, got {value!r}")
    if key == "start":
        if not isinstance(value, list | tuple) or len(value) != 4:
            raise BadValue(f"{path} must be [x_min, y_min, x_max, y_max], got {value!r}")
        x, y, right, top = (_number(path, part) for part in value)
        if x > right or y > top:
            raise BadValue(f"{path} must be [x_min, y_min, x_max, y_max], got {value!r}")
        return x, y, right, top
    if key == "places":
        if not isinstance(value, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in value):
            raise BadValue(f"{path} must be a list of [x, y], got {value!r}")
        return tuple((_number(path, x), _number(path, y)) for x, y in value)
    if key in ("name", "summary") and not (isinstance(value, str) and (value or key == "summary")):
        raise BadValue(f"{path} must be a text, got {value!r}")
    return value


def _number(path: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadValue(f"{path} must be a number, got {value!r}")
    return float(value)


def _check(task: NavigationTask) -> None:
    """What must fit together."""
    for kind in REWARDS[task.reward]:
        if not task.of(kind):
            raise BadValue(f"{kind} is missing: a task with reward = {task.reward!r} needs it; add [{kind}]")
    for objects in task.objects:
        if not objects.places and objects.keepout >= task.arena:
            raise BadValue(
                f"{objects.kind}.keepout must be smaller than arena, {task.arena:g}, got {objects.keepout:g}"
            )
    if task.start is None and task.start_keepout >= task.arena:
        raise BadValue(f"start_keepout must be smaller than arena, {task.arena:g}, got {task.start_keepout:g}")
