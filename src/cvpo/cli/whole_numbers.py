"""Whole numbers on the command line: 200000, 200_000, 2e5 or 200k, for every flag that takes one."""

from __future__ import annotations

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from cvpo.inputs import parse_whole_number

WHOLE_NUMBERS = ConstructorRegistry()


@WHOLE_NUMBERS.primitive_rule
def _whole_number(kind: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    if kind.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda texts: parse_whole_number(texts[0]),
        is_instance=lambda value: type(value) is int,
        str_from_instance=lambda value: [str(value)],
    )
