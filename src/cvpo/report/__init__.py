"""Figures, tables and a page to look at, from run directories alone. Nothing here needs JAX."""

from cvpo.report.curves import draw_run
from cvpo.report.write import write_report

__all__ = ["draw_run", "write_report"]
