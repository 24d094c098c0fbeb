"""The settings of an algorithm as flags, in groups."""

from __future__ import annotations

import dataclasses
import typing
from typing import Annotated, Any

import docstring_parser
import tyro

from cvpo.algorithms.config import grouped_fields


def flags(config: Any) -> Any:
    """A dataclass with one field for each group of settings; its defaults are those of `config`.

    tyro shows each nested dataclass as a group of flags. The settings stay one flat dataclass everywhere else.
    """
    hints = typing.get_type_hints(type(config))
    texts = help_texts(type(config))
    nested = []
    for group, members in grouped_fields(type(config)).items():
        fields = [
            (name, Annotated[hints[name], tyro.conf.arg(help=texts[name])], _default(getattr(config, name)))
            for name in (field.name for field in members)
        ]
        kind = dataclasses.make_dataclass(f"{group.title().replace(' ', '')}Settings", fields, frozen=True)
        kind.__doc__ = ""  # else tyro shows the signature
        # The group's name is the heading of its flags and no part of them: --batch-size, not --critics.batch-size.
        shown: Any = Annotated[kind, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name=group)]
        nested.append((group.replace(" ", "_"), shown, _default(kind())))
    return dataclasses.make_dataclass("Settings", nested, frozen=True)()


def settings_of(values: Any) -> dict[str, Any]:
    """The settings in an instance of what `flags` made, without their groups."""
    return {name: value for group in vars(values).values() for name, value in vars(group).items()}


def help_texts(config: type) -> dict[str, str]:
    """The docstring of each field, of base classes too; line breaks are the source's and go."""
    documented = [
        parameter
        for kind in reversed(config.__mro__[:-1])
        for parameter in docstring_parser.parse_from_object(kind).params
    ]
    return {each.arg_name: " ".join((each.description or "").split()) for each in documented}


def _default(value: Any) -> Any:
    return dataclasses.field(default=value)
