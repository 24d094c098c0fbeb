"""Compiled programs are kept on disk for the whole session, as most tests train the same tiny learner; and the shapes
that the maths states in its signatures are checked at every call."""

import os
import tempfile

_cache = os.path.join(tempfile.gettempdir(), f"cvpo-test-compiled-{os.getuid()}")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", _cache)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.02")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

from jaxtyping import install_import_hook  # noqa: E402 - after JAX's settings

CHECKED = [
    "cvpo.algorithms.cvpo.cost_control",
    "cvpo.algorithms.cvpo.estep",
    "cvpo.algorithms.cvpo.mstep",
    "cvpo.algorithms.shared.distributions",
    "cvpo.algorithms.shared.pid",
    "cvpo.algorithms.shared.returns",
    "cvpo.algorithms.shared.trust_region",
]
install_import_hook(CHECKED, "beartype.beartype")
