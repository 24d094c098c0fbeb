"""The arrays through which copies and their owner talk."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spaces import leaves


class Block:
    """What N copies read and write, one row each: in memory of this process, or shared with others."""

    def __init__(self, layout: dict[str, Any], memory: Any = None) -> None:
        """layout: "count" of copies, number of "costs", names of their "parts", "observation" and "action"."""
        self.part_names = layout["parts"]
        fields, self.size = _fields(layout)
        memory = bytearray(self.size) if memory is None else memory
        arrays = [
            np.frombuffer(memory, dtype, int(np.prod(shape, dtype=int)), start).reshape(shape)
            for shape, dtype, start in fields
        ]
        self.action, self.reward, self.costs, self.parts, self.terminated, self.truncated = arrays[:6]
        # where each copy is now, and where the episode was that its last step ended
        parts = len(leaves(layout["observation"]))
        self.obs, self.final_obs = arrays[6 : 6 + parts], arrays[6 + parts :]


def block_size(layout: dict[str, Any]) -> int:
    """Bytes of a block's memory."""
    return _fields(layout)[1]


def _fields(layout: dict[str, Any]) -> tuple[list[tuple[tuple[int, ...], str, int]], int]:
    """Shape, dtype and first byte of each array, and the bytes of all."""
    action, observation = layout["action"], leaves(layout["observation"])
    rows: list[tuple[tuple[int, ...], str]] = [
        (tuple(action.get("shape", ())), action.get("dtype", "int64")),
        ((), "float32"),
        ((layout["costs"],), "float32"),
        ((len(layout["parts"]),), "float64"),
        ((), "bool"),
        ((), "bool"),
        *observation,
        *observation,
    ]
    fields, end = [], 0
    for row, dtype in rows:
        shape = (layout["count"], *row)
        fields.append((shape, dtype, end))
        end += -(-int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize // 64) * 64  # whole cache lines
    return fields, end
