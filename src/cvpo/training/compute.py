"""What a run computes with: XLA's thread pool, which decides its last bits, and programs compiled by earlier runs.

A product of matrices on the CPU is split among the threads of XLA's pool, and a sum that is split differently rounds
differently. The pool has a thread for each core that the process may use, unless it is told another number before JAX
computes anything. So a run notes its number, and whoever resumes it asks for that number again.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
from filelock import FileLock, Timeout

from cvpo.machine import usable_cores

CACHE_VARIABLE = "CVPO_COMPILATION_CACHE"
CACHE_BYTES = 256 * 2**20  # about a hundred times what one method needs on one task
_MIN_COMPILE_SECONDS = 0.05  # what compiles faster is not worth a file
_POOL_VARIABLES = ("PJRT_NPROC", "NPROC")  # which XLA reads, the first that is set

_pool: int | None = None  # threads of the pool that this process computes with, once that is decided


def fix_threads(wanted: int | None = None) -> int:
    """Decide how many threads XLA computes with: `wanted`, or what it would have taken anyway.

    The first to compute anything in a process decides for all. If that was with another number, a warning says what
    follows from it. Returns the number that the process computes with.
    """
    global _pool
    if _pool is None:
        _pool = _default_threads()
        if not _computing():
            _pool = wanted or _pool
            before = os.environ.get(_POOL_VARIABLES[0])
            os.environ[_POOL_VARIABLES[0]] = str(_pool)
            try:
                jax.devices()
            finally:
                del os.environ[_POOL_VARIABLES[0]]
                if before is not None:
                    os.environ[_POOL_VARIABLES[0]] = before
    if wanted is not None and wanted != _pool:
        warnings.warn(
            f"the run was started with {wanted} compute threads, and this process has computed with {_pool} already: "
            "the results may differ in their last bits from those of a run that was never stopped. Resume it in a "
            "process of its own, as `cvpo train --resume` does",
            stacklevel=2,
        )
    return _pool


def _default_threads() -> int:
    for variable in _POOL_VARIABLES:
        with contextlib.suppress(KeyError, ValueError):
            return int(os.environ[variable])
    return usable_cores()


def _computing() -> bool:
    """Whether JAX has its devices already, and with them its pool."""
    from jax._src import xla_bridge  # JAX has no public name for it, and asking in any other way would make them

    return xla_bridge.backends_are_initialized()


def keep_compiled_programs(threads: int) -> Path | None:
    """Let JAX keep what it compiles on the disk, and find there what earlier runs have compiled; where, if it does.

    In the user's cache directory, or the one that CVPO_COMPILATION_CACHE names; "off" keeps nothing. A cache that JAX
    was told of by its own settings is left as it is. Programs are looked for by what they compute, the version and the
    processor, and by the number of threads: a cached program computes what a fresh one does.
    """
    given = os.environ.get(CACHE_VARIABLE, "")
    if given.lower() in ("off", "0", "no", "false"):
        return None
    config: Any = jax.config  # whose settings are no part of its type
    if config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache:
        return None
    directory = (Path(given) if given else _user_cache() / "cvpo" / "compiled") / f"threads-{threads}"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # programs are run as they are found: never those of another user
        if directory.stat().st_uid != os.getuid() or not os.access(directory, os.W_OK):
            return None
        _remove_unfinished(directory)
    except OSError:  # a home that cannot be written: everything works without
        return None
    config.update("jax_compilation_cache_dir", str(directory))
    config.update("jax_compilation_cache_max_size", CACHE_BYTES)
    config.update("jax_persistent_cache_min_compile_time_secs", _MIN_COMPILE_SECONDS)
    config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return directory


def _user_cache() -> Path:
    if "XDG_CACHE_HOME" in os.environ:
        return Path(os.environ["XDG_CACHE_HOME"])
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def _remove_unfinished(directory: Path) -> None:
    """Remove what a killed process has left half-written: JAX writes a program first and its time of use last.

    A program without its time would keep JAX from storing any other.
    """
    with contextlib.suppress(Timeout), FileLock(directory / ".lockfile", timeout=5):  # JAX's own lock
        programs = {path.name.removesuffix("-cache") for path in directory.glob("*-cache")}
        used = {path.name.removesuffix("-atime") for path in directory.glob("*-atime")}
        for name in programs ^ used:
            (directory / f"{name}-cache").unlink(missing_ok=True)
            (directory / f"{name}-atime").unlink(missing_ok=True)
