"""The running moments of observations against those of all rows at once."""

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.algorithms.shared.normalize import CLIP, Moments, merge, scale

NONE = Moments(jnp.zeros(()), jnp.zeros(3), jnp.zeros(3))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**31), st.lists(st.sampled_from([1, 2, 7, 40]), min_size=1, max_size=4))
def test_moments_of_parts_are_those_of_the_whole(seed, sizes):
    rows = np.random.default_rng(seed).normal([5.0, 0.0, -300.0], [0.1, 3.0, 20.0], (sum(sizes), 3)).astype(np.float32)
    moments = NONE
    for part in np.split(rows, np.cumsum(sizes)[:-1]):
        moments = merge(moments, jnp.asarray(part))
    assert moments.rows == len(rows)
    np.testing.assert_allclose(moments.mean, rows.mean(0, dtype=np.float64), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(moments.square / len(rows), rows.astype(np.float64).var(0), rtol=2e-3, atol=1e-5)


def test_scaled_observations_have_mean_zero_and_deviation_one():
    rows = jnp.asarray(np.random.default_rng(0).normal([5.0, 0.0, -300.0], [0.1, 3.0, 20.0], (500, 3)), jnp.float32)
    seen = scale(merge(NONE, rows), rows)
    np.testing.assert_allclose(seen.mean(0), 0.0, atol=1e-3)
    np.testing.assert_allclose(seen.std(0), 1.0, rtol=1e-3)


def test_outliers_are_clipped_and_what_never_varied_is_zero():
    rows = jnp.asarray([[1.0, -1.0, 7.0], [-1.0, 1.0, 7.0]])
    seen = scale(merge(NONE, rows), jnp.asarray([[1e6, -1e6, 8.0]]))
    np.testing.assert_array_equal(seen, [[CLIP, -CLIP, 0.0]])
