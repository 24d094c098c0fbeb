"""Compiled programs are kept on disk for the whole session: most tests train the same tiny learner."""

import os
import tempfile

_cache = os.path.join(tempfile.gettempdir(), f"cvpo-test-compiled-{os.getuid()}")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", _cache)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.02")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
