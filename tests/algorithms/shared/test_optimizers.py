import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cvpo.algorithms.shared.optimizers import settling_adam, settling_rate


@given(st.integers(0, 10**7), st.integers(1, 10**6))
def test_the_rate_is_full_for_the_steady_steps_and_then_one_over_the_steps(taken, steady):
    expected = 3e-4 * min(1.0, steady / max(taken, 1))
    assert settling_rate(3e-4, steady, taken) == pytest.approx(expected, rel=1e-5)


def excursions(optimizer: optax.GradientTransformation) -> np.ndarray:
    """Where the minimum of ½ (x - noise)² is looked for in 20,000 steps; the noise has a mean of 0."""
    noise = np.random.default_rng(0).normal(size=20_000)
    start = jnp.ones(())

    def step(carry, sample):
        x, state = carry
        change, state = optimizer.update(x - sample, state)
        x = optax.apply_updates(x, change)
        return (x, state), x

    _, seen = jax.lax.scan(step, (start, optimizer.init(start)), jnp.asarray(noise, jnp.float32))
    return np.asarray(seen)


def test_noise_averages_out_only_if_the_rate_falls():
    constant, settling = excursions(settling_adam(0.03, None)), excursions(settling_adam(0.03, 200.0))
    late = slice(-5_000, None)
    assert np.abs(settling[late]).max() < 0.05 < 0.1 < np.abs(constant[late]).max()
    assert np.array_equal(constant[:200], settling[:200])


def test_without_steady_steps_it_is_plain_adam():
    assert np.array_equal(excursions(settling_adam(0.01, None)), excursions(optax.adam(0.01)))
