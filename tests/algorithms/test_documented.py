"""What users read is complete: every metric is in docs/metrics.md, every setting has its help and its group."""

import ast
import dataclasses
import functools
import inspect
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from samples import sample_of

from cvpo.algorithms.base import Spec, Transition
from cvpo.algorithms.config import GROUPS, grouped_fields
from cvpo.algorithms.registry import ALGORITHMS
from cvpo.errors import UserError
from cvpo.presets import make_config

GROUPS_OF_UPDATES = ("critic", "cost_control", "estep", "mstep", "policy", "update")


@functools.cache
def documented() -> dict[str, str]:
    """The keys of the tables of docs/metrics.md that updates make, and what the page says of each."""
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    found: dict[str, str] = {}
    for keys, meaning in re.findall(r"^\| (`.*?`) \| (.*) \|$", text, re.M):
        for key in re.findall(r"`(\w+/\w+)`", keys):
            if key.startswith(GROUPS_OF_UPDATES):
                found[key] = found.get(key, "") + meaning
    return found


@functools.cache
def metrics(name: str, constraints: int, discrete: bool):
    """The metrics of one update, traced and never run; None if the method does not take such a problem."""
    spec = Spec(3, 2, discrete, (1.0,) * constraints, 10)
    config = make_config(name, None, {"hidden": (4,)})
    try:
        algorithm = ALGORITHMS[name].make(config, spec)
    except UserError:
        return None
    lead = (10, config.envs)
    if type(config).off_policy:
        lead = (config.sequences,) if config.n_step == 1 else (config.sequences, config.n_step)

    def array(*shape: int, dtype: type = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*lead, *shape), dtype)

    action = array(dtype=jnp.int32) if discrete else array(2)
    flag = array(dtype=jnp.bool_)
    batch = Transition(array(3), action, array(), array(), array(constraints), array(3), flag, flag)
    data = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), batch)
    data = sample_of(data) if type(config).off_policy else data
    return jax.eval_shape(lambda key: algorithm.update(algorithm.init(key), data, key)[1], jax.random.key(0))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_metric_is_documented_with_how_an_epochs_updates_are_summed_up(name):
    for discrete in (False, True):
        made = metrics(name, 1, discrete)
        if made is None:
            continue
        for key in (*made.mean, *made.maximum):
            assert key in documented(), f"{key} of {name} is not in docs/metrics.md"
            assert ("*largest*" in documented()[key]) == (key in made.maximum), key


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_each_constraint_has_of_its_own_is_marked(name):
    made = metrics(name, 2, False)
    if made is None:
        return
    for key in (*made.mean, *made.maximum):
        per_cost = re.fullmatch(r"(.*)_[01]", key)
        assert ("*per cost*" in documented()[per_cost[1] if per_cost else key]) == bool(per_cost), key


def test_nothing_is_documented_that_no_method_makes():
    made = [metrics(name, 1, discrete) for name in ALGORITHMS for discrete in (False, True)]
    keys = {key for m in made if m is not None for key in (*m.mean, *m.maximum)}
    assert not set(documented()) - keys


def helped(config: type) -> set[str]:
    """The fields of a config class, its bases' too, that a line of help follows; a field said anew needs a new line."""
    names: set[str] = set()
    for base in reversed(config.__mro__[:-1]):
        body = ast.parse(inspect.getsource(base)).body[0].body
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                (names.add if text else names.discard)(node.target.id)
    return names


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_setting_has_help_and_a_group(name):
    config = ALGORITHMS[name].config
    fields = [field.name for field in dataclasses.fields(config)]
    assert not set(fields) - helped(config)
    groups = grouped_fields(config)
    assert sorted(field.name for members in groups.values() for field in members) == sorted(fields)
    assert list(groups) == [group for group in GROUPS if group in groups]
