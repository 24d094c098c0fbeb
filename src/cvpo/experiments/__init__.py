"""Many runs: grids of them, on this machine's cores or on a Ray cluster, and the paper's own grid."""

from cvpo.experiments.spec import RunSpec, grid, run_spec
from cvpo.experiments.status import Status
from cvpo.experiments.sweep import sweep

__all__ = ["RunSpec", "Status", "grid", "run_spec", "sweep"]
