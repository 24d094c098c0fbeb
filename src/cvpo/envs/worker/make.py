"""From a name to an environment."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
from typing import Any, Callable, Iterable

from .problem import Problem


def make(name: str, kwargs: dict[str, Any], render: bool = False) -> Any:
    """The environment that "module:name" or an id stands for; one that draws pictures if `render`."""
    maker = find_maker(name)
    if render and _takes(maker, "render_mode"):
        kwargs = {"render_mode": "rgb_array", **kwargs}
    try:
        return maker(**kwargs)
    except Exception as error:
        if type(error).__module__.split(".")[0] in ("gym", "gymnasium"):  # such as a package that is missing
            raise Problem(f"cannot make {name}: {error}") from error
        if render and "render_mode" in str(error):
            raise Problem(f"{name} draws no pictures: {error}") from error
        raise


def find_maker(name: str, other_names: Iterable[str] = ()) -> Callable[..., Any]:
    """What makes the environment of a name.

    The module of "module:name" may have a class or function of that name, or a `make` of its own, or it registers the
    id with gymnasium or gym when it is imported. `other_names` are for the suggestions where there is none.
    """
    module_name, _, short_name = name.rpartition(":")
    maker = _in_module(name, module_name, short_name) if module_name else None
    return maker or _registered(short_name, other_names)


def _in_module(full_name: str, module_name: str, name: str) -> Callable[..., Any] | None:
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise Problem(f"cannot import {module_name!r} of the environment {full_name!r}: {error}") from error
    found: Callable[..., Any] | None = getattr(module, name, None)
    if callable(found):
        return found
    own = getattr(module, "make", None)
    return functools.partial(own, name) if callable(own) else None


def _registered(name: str, other_names: Iterable[str]) -> Callable[..., Any]:
    """What makes an id that is registered with gymnasium, or else with gym."""
    known = list(other_names)
    for package in ("gymnasium", "gym"):
        try:
            gym = importlib.import_module(package)
        except ImportError:
            continue
        registry = importlib.import_module(f"{package}.envs.registration").registry
        ids = list(getattr(registry, "env_specs", registry))
        if name in ids:
            # The checker would refuse six values, and warns where all is well.
            checker = {"disable_env_checker": True} if "disable_env_checker" in _parameters(gym.make) else {}
            return functools.partial(gym.make, name, **checker)
        known += ids
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "module:id imports the module that registers it"
    raise Problem(f"no task or environment {name!r}; {hint}")


def _takes(maker: Callable[..., Any], keyword: str) -> bool:
    """Whether it takes a keyword. `make` of gym before 0.26 takes any, but hands it on to environments that do not."""
    parameters = _parameters(maker)
    if keyword in parameters:
        return True
    of_gym = getattr(getattr(maker, "func", maker), "__module__", "").split(".")[0] == "gym"
    return not of_gym and any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _parameters(maker: Callable[..., Any]) -> dict[str, Any]:
    try:
        return dict(inspect.signature(maker).parameters)
    except (TypeError, ValueError):  # written in C
        return {}
