"""Targets against hand-computed numbers and against the exact values of a small chain."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.algorithms.shared.returns import gae, n_step_target, retrace_target, td_target, threshold_factor

compiled_gae, compiled_retrace = jax.jit(gae), jax.jit(retrace_target)


def row(*values, kind=jnp.float32):
    return jnp.array([values], kind)


def test_threshold_factor_is_the_mean_discount_of_an_episode():
    assert threshold_factor(3, 0.5) == pytest.approx((1 + 0.5 + 0.25) / 3)
    assert threshold_factor(400, 1.0) == 1.0
    assert threshold_factor(7, 0.0) == pytest.approx(1 / 7)
    assert threshold_factor(1, 0.99) == pytest.approx(1.0)


@given(st.integers(1, 2000), st.floats(0, 1))
@settings(deadline=None, max_examples=50)
def test_threshold_factor_equals_the_sum_of_discounts(length, gamma):
    assert threshold_factor(length, gamma) == pytest.approx(np.mean(gamma ** np.arange(length)), rel=1e-6)


def test_threshold_factor_refuses_nonsense():
    with pytest.raises(ValueError, match=r"episode_length must be >= 1, got 0"):
        threshold_factor(0, 0.9)
    with pytest.raises(ValueError, match=r"gamma must be between 0 and 1, got 1\.5"):
        threshold_factor(10, 1.5)


def test_td_target_drops_the_future_of_terminal_states_only():
    target = td_target(jnp.array([1.0, 1.0]), jnp.array([10.0, jnp.inf]), jnp.array([False, True]), 0.9)
    np.testing.assert_allclose(target, [10.0, 1.0])


@pytest.mark.parametrize(
    ("ended_at", "terminal", "expected"),
    [
        (None, False, 1 + 0.5 * 2 + 0.25 * 4 + 0.125 * 80),  # runs through: the last next_value
        (2, True, 1 + 0.5 * 2 + 0.25 * 4),
        (1, False, 1 + 0.5 * 2 + 0.25 * 40),  # cut by time: bootstraps where it was cut
        (1, True, 1 + 0.5 * 2),
        (0, False, 1 + 0.5 * 20),
    ],
)
def test_n_step_target_by_hand(ended_at, terminal, expected):
    ended = row(*(t == ended_at for t in range(3)), kind=bool)
    target = n_step_target(row(1, 2, 4), row(20, 40, 80), ended & terminal, ended, 0.5)
    np.testing.assert_allclose(target, [expected])


def test_one_step_is_the_td_target():
    args = row(1.5), row(3.0), row(False, kind=bool)
    np.testing.assert_allclose(
        n_step_target(*args, row(True, kind=bool), 0.9), td_target(*(a[:, 0] for a in args), 0.9)
    )


def test_retrace_by_hand():
    # δ = r + γ v - q = 1 + 1 - 1, 2 + 2 - 3, 3 + 3 - 2 = 1, 1, 4; c₁ = 0.8·0.5, c₂ = 0.8·1 (the ratio 3 is cut)
    log_ratio = jnp.log(row(9.0, 0.5, 3.0))
    go = row(False, False, False, kind=bool)
    args = row(1, 3, 2), row(2, 4, 6), row(1, 2, 3)
    target = retrace_target(*args, go, go, log_ratio, 0.5, 0.8)
    # each step's target is what follows it in the row
    third = 2 + 4
    second = 3 + 1 + 0.5 * 0.8 * 4
    np.testing.assert_allclose(target, [[1 + 1 + 0.5 * 0.4 * (1 + 0.5 * 0.8 * 4), second, third]], rtol=1e-6)
    # an episode that ends after its second step
    ended = row(False, True, False, kind=bool)
    np.testing.assert_allclose(
        retrace_target(*args, go, ended, log_ratio, 0.5, 0.8)[:, 0], [1 + 1 + 0.5 * 0.4 * 1], rtol=1e-6
    )
    np.testing.assert_allclose(
        retrace_target(*args, ended, ended, log_ratio, 0.5, 0.8)[:, 0], [1 + 1 + 0.5 * 0.4 * (2 - 3)], rtol=1e-6
    )


def test_retrace_on_policy_with_lambda_one_is_the_n_step_target():
    # With V = Q(s, a) along the path, the corrections telescope.
    rng = np.random.default_rng(0)
    q = jnp.array(rng.normal(size=(5, 5)))
    reward = jnp.array(rng.normal(size=(5, 4)))
    ended = jnp.array(rng.random((5, 4)) < 0.3)
    terminated = ended & jnp.array(rng.random((5, 4)) < 0.5)
    retrace = retrace_target(q[:, :4], q[:, 1:], reward, terminated, ended, jnp.zeros((5, 4)), 0.9, 1.0)
    np.testing.assert_allclose(retrace[:, 0], n_step_target(reward, q[:, 1:], terminated, ended, 0.9), rtol=1e-5)


@pytest.fixture(scope="module")
def chain():
    """Five states in a row, left or right, a slip of 0.2; walking right off the end pays 1 and terminates."""
    rng = np.random.default_rng(1)
    states, slip, gamma = 5, 0.2, 0.9
    move = np.zeros((states, 2, states + 1))  # the last column is the end
    for s in range(states):
        for a in (0, 1):
            for way, p in ((a, 1 - slip), (1 - a, slip)):
                move[s, a, s + 1 if way else max(s - 1, 0)] += p
    target, behaviour = (
        np.stack([1 - p, p], 1) for p in (rng.uniform(0.5, 0.95, states), rng.uniform(0.2, 0.8, states))
    )
    # Q = P (1_end + γ V), V = Σ_a π Q
    step = np.einsum("sat,tb->satb", move[:, :, :states], target).reshape(states * 2, states * 2)
    q = np.linalg.solve(np.eye(states * 2) - gamma * step, move[:, :, states].ravel()).reshape(states, 2)
    return move, target, behaviour, q, gamma


def walk(chain, s, a, steps, walks, rng):
    """`walks` paths of the behaviour policy from (s, a); what follows the end is a fresh episode from state 0."""
    move, _, behaviour, _, _ = chain
    states = move.shape[0]
    now, action = np.full(walks, s), np.full(walks, a)
    path = []
    for _ in range(steps):
        draw = rng.random(walks)[:, None]
        following = (move[now, action].cumsum(-1) < draw).sum(-1)
        end = following == states
        path.append((now, action, end, np.where(end, 0, following)))
        now = np.where(end, 0, following)
        action = (rng.random(walks) < behaviour[now, 1]).astype(int)
    return [np.stack(column, 1) for column in zip(*path, strict=True)]


@pytest.mark.parametrize("lam", [0.5, 1.0])
def test_the_value_of_the_policy_is_retraces_fixed_point(chain, lam):
    """Targets made with the true Q have mean Q at every (s, a), off-policy, with any trace; a wrong Q is contracted."""
    _, target, behaviour, q, gamma = chain
    rng = np.random.default_rng(2)
    wrong = q + rng.uniform(-1, 1, q.shape)
    error = np.zeros_like(q)
    for s in range(5):
        for a in (0, 1):
            now, action, end, following = walk(chain, s, a, 6, 20_000, rng)
            ratio = np.log(target[now, action] / behaviour[now, action])

            def mean(values, now=now, action=action, end=end, following=following, ratio=ratio):
                v = (target * values).sum(1)[following]
                args = values[now, action], v, end.astype(float), end, end, ratio
                sample = np.asarray(compiled_retrace(*args, gamma, lam))[:, 0]
                return sample.mean(), sample.std() / len(sample) ** 0.5

            value, spread = mean(q)
            assert abs(value - q[s, a]) < 4.5 * spread + 1e-5
            error[s, a] = mean(wrong)[0] - q[s, a]
    assert np.abs(error).max() < gamma * np.abs(wrong - q).max() + 0.03


def test_gae_by_hand_with_truncation_and_termination():
    # γ = λ = 0.5. Three steps cut by time after the second; one column terminates there instead.
    value = jnp.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    next_value = jnp.array([[2.0, 2.0], [8.0, 8.0], [4.0, 4.0]])
    reward = jnp.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    ended = jnp.array([[False, False], [True, True], [False, False]])
    terminated = jnp.array([[False, False], [False, True], [False, False]])
    advantage, target = gae(value, next_value, reward, terminated, ended, 0.5, 0.5)
    # δ: 1+1-1 = 1; cut: 1+4-2 = 3, terminal: 1-2 = -1; 1+2-3 = 0. A₀ = δ₀ + 0.25 A₁
    np.testing.assert_allclose(advantage, [[1.75, 0.75], [3.0, -1.0], [0.0, 0.0]])
    np.testing.assert_allclose(target, advantage + value)


@given(st.integers(0, 2**31), st.floats(0, 1), st.booleans())
@settings(deadline=None, max_examples=20)
def test_gae_extremes_are_td_errors_and_returns(seed, gamma, last_terminal):
    rng = np.random.default_rng(seed)
    steps = 6
    value, reward = (rng.normal(size=(steps + 1, 1)), rng.normal(size=(steps, 1)))
    ended = np.arange(steps)[:, None] == steps - 1
    terminated = ended & last_terminal
    args = [jnp.asarray(x) for x in (value[:-1], value[1:], reward, terminated, ended)]
    final = 0.0 if last_terminal else value[-1]
    np.testing.assert_allclose(
        compiled_gae(*args, gamma, 0.0)[1], reward + gamma * np.where(terminated, 0, value[1:]), rtol=1e-4, atol=1e-5
    )
    returns = [final]
    for r in reward[::-1]:
        returns.append(r + gamma * returns[-1])
    np.testing.assert_allclose(compiled_gae(*args, gamma, 1.0)[1], np.stack(returns[:0:-1]), rtol=1e-4, atol=1e-5)
