"""The worlds' random generators: how one is seeded, and its state as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import seeding

from cvpo.errors import BadValue

_WORD = (1 << 64) - 1
_LARGEST_LEGACY_SEED = (1 << 32) - 1


def make_generator(seed: int | None, legacy: bool) -> np.random.Generator:
    """Gymnasium's generator, or one with the stream of `numpy.random.RandomState(seed)`, as Safety Gym has it."""
    if not legacy:
        return seeding.np_random(seed)[0]
    if seed is not None and not 0 <= seed <= _LARGEST_LEGACY_SEED:
        raise BadValue(f"a seed of this task must be from 0 to {_LARGEST_LEGACY_SEED}, got {seed}")
    bits = np.random.MT19937()
    state: Any = np.random.RandomState(seed).get_state(legacy=False)
    bits.state = state
    return np.random.Generator(bits)


def pack_generator(rng: np.random.Generator) -> np.ndarray:
    """The generator's state as uint64: of PCG64 two 128-bit numbers and the half-used draw, of MT19937 its words."""
    state: Any = rng.bit_generator.state
    if state["bit_generator"] == "MT19937":
        return np.append(state["state"]["key"], state["state"]["pos"]).astype(np.uint64)
    big = [state["state"]["state"], state["state"]["inc"]]
    words = [half for number in big for half in (number >> 64, number & _WORD)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def unpack_generator(rng: np.random.Generator, packed: np.ndarray) -> None:
    """Put the generator into a state that `pack_generator` returned."""
    state: Any = rng.bit_generator.state
    if state["bit_generator"] == "MT19937":
        state["state"] = {"key": packed[:-1].astype(np.uint32), "pos": int(packed[-1])}
    else:
        words = [int(word) for word in packed]
        state |= {
            "state": {"state": words[0] << 64 | words[1], "inc": words[2] << 64 | words[3]},
            "has_uint32": words[4],
            "uinteger": words[5],
        }
    rng.bit_generator.state = state
