import gymnasium
import numpy as np
import pytest

from cvpo.tasks.circle import Circle
from cvpo.tasks.vector_env import TaskVectorEnv

# throttle, steering -> speed after 0.6, 1.1, 2.1, 3.1 s, final speed, final radius (None: not measured)
FIGURES = {
    (1.0, 0.0): (0.96, 1.6, 2.3, 2.6, 2.7, None),
    (1.0, 1.0): (0.8, 1.3, 1.9, 2.2, 2.3, 2.05),
    (0.5, 1.0): (None, None, None, None, 1.15, 2.0),
    (0.3, 0.5): (None, None, None, None, 0.75, 4.0),
    (0.1, 0.0): (None, None, None, None, 0.33, None),
}


@pytest.fixture
def world():
    world = Circle([np.random.default_rng(0)], threads=1)
    world.begin(np.array([0]))
    return world


def put(world, x, y, yaw, vx=0.0, vy=0.0):
    world.physics.rest(np.array([0]))
    world.physics.qpos[0, :3] = x, y, yaw
    world.physics.qvel[0, :2] = vx, vy


@pytest.mark.parametrize("direction", [1.0, -1.0])
@pytest.mark.parametrize("command", FIGURES)
def test_the_car_drives_as_the_original(world, command, direction):
    throttle, steering = command
    put(world, -8.0 if steering == 0 else 0.0, 0.0, 0.0 if direction > 0 else np.pi)
    action = np.array([[direction * throttle, steering]])
    speeds = []
    for _ in range(60):
        world.advance(action)
        speeds.append(np.hypot(*world.physics.qvel[0, :2]))
    yaw_rate = abs(world.physics.qvel[0, 2])
    radius = speeds[-1] / yaw_rate if steering else None
    measured = (speeds[5], speeds[10], speeds[20], speeds[30], speeds[-1], radius)
    for got, wanted in zip(measured, FIGURES[command], strict=True):
        if wanted is not None:
            assert got == pytest.approx(wanted, rel=0.1)


def test_steering_to_the_left_is_positive(world):
    put(world, 0.0, 0.0, 0.0)
    for _ in range(10):
        world.advance(np.array([[0.5, 1.0]]))
    assert world.physics.qvel[0, 2] > 0 and world.physics.qpos[0, 1] > 0


@pytest.mark.parametrize(("radius", "share"), [(6.0, 0.3), (7.0, 0.7), (8.0, 0.4)])
@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_the_reward_is_a_share_of_the_clockwise_speed(world, radius, share, direction):
    """A tenth of the radius on the circle of radius 7, and half of that a metre inside or outside."""
    put(world, 0.0, radius, 0.0 if direction > 0 else np.pi, vx=direction * 1.0)
    reward, _, _ = world.advance(np.zeros((1, 2)))
    speed = world.physics.qvel[0, 0]  # at the top of the circle, to the right
    assert abs(speed) > 0.5
    assert reward[0] / speed == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize(("x", "cost"), [(5.9, 0.0), (6.1, 1.0), (-5.9, 0.0), (-6.1, 1.0)])
def test_leaving_the_safe_zone_costs(world, x, cost):
    put(world, x, 0.0, np.pi / 2)
    _, _, events = world.advance(np.zeros((1, 2)))
    assert events["cost"][0] == events["cost_out_of_bounds"][0] == cost


def test_the_observation_by_hand(world):
    put(world, 3.0, 4.0, 0.5, vx=1.0, vy=-2.0)
    world.physics.qvel[0, 2] = 0.7
    expected = [0.3, 0.4, 1.0, -2.0, np.sin(0.5), np.cos(0.5), 0.07, -0.2]
    np.testing.assert_allclose(world.observe()[0], expected, rtol=1e-6)


def test_episodes_start_at_rest_in_the_ring_along_the_clockwise_tangent():
    env = TaskVectorEnv("Car-Circle", 200)
    env.reset(seed=0)
    x, y, yaw = env.world.physics.qpos[:, :3].T
    radius = np.hypot(x, y)
    assert 2.0 <= radius.min() < 2.1 and 3.95 < radius.max() <= 4.0
    # uniform over the ring's area: half of it lies outside the radius sqrt(10)
    assert abs((radius > np.sqrt(10)).mean() - 0.5) < 0.1
    np.testing.assert_allclose(x * np.cos(yaw) + y * np.sin(yaw), 0.0, atol=1e-12)
    assert (y * np.cos(yaw) - x * np.sin(yaw) > 0).all()
    assert not env.world.physics.qvel.any()


def test_the_walls_hold_a_car_at_full_throttle_in_every_direction():
    world = Circle([np.random.default_rng(i) for i in range(32)], threads=1)
    world.begin(np.arange(32))
    world.physics.qpos[:, 2] = np.arange(32) * np.pi / 16
    for _ in range(150):
        world.advance(np.tile([1.0, 0.0], (32, 1)))
    normals = np.arange(8) * np.pi / 4
    places = world.physics.qpos[:, :2]
    outward = places @ np.array([np.cos(normals), np.sin(normals)])
    assert outward.max() < 10.0
    assert (np.hypot(*places.T) > 8.0).all()


def test_the_options_of_other_tasks_are_refused_with_the_remedy():
    with pytest.raises(ValueError, match="leave them out"):
        gymnasium.make("cvpo/CarCircle-v0", start="random")
