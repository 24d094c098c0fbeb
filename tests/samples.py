"""Samples of a replay for tests of single updates."""

from cvpo.algorithms.base import Sample, Transition


def sample_of(steps: Transition | Sample) -> Sample:
    """Critics and policy learn from the same steps [B] or [B, n], unless it is a sample already."""
    if isinstance(steps, Sample):
        return steps
    return Sample(steps, steps.obs.reshape(-1, steps.obs.shape[-1]))
