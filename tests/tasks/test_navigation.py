import mujoco
import numpy as np
import pytest
from driving import drive_to, hazards, place

from cvpo.tasks import arena
from cvpo.tasks.arena import load, navigation_model
from cvpo.tasks.paper import PAPER
from cvpo.tasks.robots import ROBOTS
from cvpo.tasks.vector_env import TaskVectorEnv

TASK_NAMES = list(PAPER)


def make(task, seed=0, **options):
    env = TaskVectorEnv(task, 1, **options)
    env.reset(seed=seed)
    return env


def distance_to_goal(world):
    x, y, _ = world.pose(0)
    return np.hypot(*(world.buttons[0, world.goal[0]] - (x, y)))


@pytest.mark.parametrize("task", TASK_NAMES)
def test_a_driver_to_the_goals_earns_the_way_made_and_one_for_each(task):
    env = make(task, seed=3)
    world = env.world
    earned, way, goals = 0.0, 0.0, 0
    for _ in range(399):
        goal = world.buttons[0, world.goal[0]].copy()
        before = distance_to_goal(world)
        _, reward, _, _, infos = env.step(drive_to(world, goal)[None])
        x, y, _ = world.pose(0)
        way += before - np.hypot(*(goal - (x, y)))
        goals += infos["goal_met"][0]
        earned += reward[0]
        assert infos["goals_reached"][0] == goals
    assert goals >= 3
    assert earned == pytest.approx(way + goals, abs=1e-9)
    # the way to each goal but the last was made whole: from where it was drawn to the button's edge
    assert way > 0.5 * goals


@pytest.mark.parametrize("task", TASK_NAMES)
def test_between_two_goals_the_rewards_add_up_to_the_distance_lost(task):
    env = make(task, seed=5)
    rng = np.random.default_rng(0)
    before, earned = distance_to_goal(env.world), 0.0
    for _ in range(100):
        _, reward, _, _, infos = env.step(rng.uniform(-1, 1, (1, 2)))
        assert not infos["goal_met"][0]
        earned += reward[0]
    assert earned == pytest.approx(before - distance_to_goal(env.world), abs=1e-9)


@pytest.mark.parametrize("task", ["Point-Button", "Car-Button"])
def test_naming_the_pairs_that_may_touch_changes_no_bit(task, monkeypatch):
    """Against MuJoCo's own search for them, on drives into buttons and gremlins."""
    ends = []
    for name_pairs in (arena._name_pairs, lambda spec: None):
        monkeypatch.setattr(arena, "_name_pairs", name_pairs)
        env = make(task, seed=2)
        assert (env.world.physics.model.npair > 0) == (not ends)
        touched = np.zeros(8, dtype=bool)
        for step in range(390):
            target = env.world.buttons[0, 3] if step < 130 else env.world.gremlins[0, 1]
            env.step(drive_to(env.world, target)[None])
            touched |= (env.world.physics.sensors[0] > 0).any(axis=0)
        assert touched[:4].any() and touched[4:].any()
        ends.append(env.world.physics.state)
    np.testing.assert_array_equal(*ends)


def violate(env, kind, target, steps=300):
    """Drive to `target()` until that kind of cost falls due; the infos of that step."""
    for _ in range(steps):
        _, _, _, _, infos = env.step(drive_to(env.world, target())[None])
        parts = [infos[key][0] for key in infos if key.startswith("cost_")]
        assert infos["cost"][0] == max(parts)
        assert infos["cost"][0] in (0.0, 1.0)
        if infos[kind][0]:
            return infos
    raise AssertionError(f"{kind} never fell due in {steps} steps")


@pytest.mark.parametrize("task", TASK_NAMES)
def test_driving_into_a_hazard_costs_within_its_radius(task):
    env = make(task)
    world = env.world
    hazard = hazards(world)[0, 2].copy()
    violate(env, "cost_hazard", lambda: hazard)
    x, y, _ = world.pose(0)
    assert np.hypot(*(hazards(world)[0] - (x, y)).T).min() <= world.task.of("hazards").size


@pytest.mark.parametrize("task", TASK_NAMES)
def test_driving_into_a_wrong_button_costs(task):
    env = make(task)
    wrong = (env.world.goal[0] + 1) % 4
    infos = violate(env, "cost_button", lambda: env.world.buttons[0, wrong])
    assert not infos["goal_met"][0]


@pytest.mark.parametrize("task", ["Point-Button", "Car-Button"])
def test_driving_into_a_gremlin_costs(task):
    env = make(task)
    violate(env, "cost_gremlin", lambda: env.world.gremlins[0, 1])


def test_a_still_robot_pays_when_a_gremlin_reaches_it():
    env = make("Point-Button")
    # the gremlin of home (1.3, 0) starts at (1.3, 0.3) and passes (1.6, 0) a quarter of its round later
    place(env, 1.75, 0.0, 0.0)
    paid = [env.step(np.zeros((1, 2)))[4]["cost_gremlin"][0] for _ in range(40)]
    first = paid.index(1.0) * 0.06
    assert 0.8 < first < np.pi / 2


def test_gremlins_circle_their_homes_in_simulated_seconds():
    env = make("Car-Button")
    for _ in range(7):
        env.step(np.zeros((1, 2)))
    orbit = 0.3 * np.array([np.sin(0.7), np.cos(0.7)])
    homes = np.array(env.world.task.of("gremlins").places)
    np.testing.assert_allclose(env.world.gremlins[0], homes + orbit, atol=1e-12)


def test_after_a_press_the_buttons_neither_show_nor_cost_for_ten_steps():
    env = make("Point-Goal")
    world = env.world
    button, other = world.buttons[0, 2], world.buttons[0, 0]
    world.goal[0] = 2
    place(env, button[0] + 0.3, button[1], np.pi)
    buttons_lidar = slice(12 + 32, 12 + 48)
    for _ in range(30):
        obs, _, _, _, infos = env.step(np.array([[1.0, 0.0]]))
        if infos["goal_met"][0]:
            break
        assert obs[0, buttons_lidar].any()
    assert not obs[0, buttons_lidar].any()
    # resting against a wrong button through the ten steps, and beyond
    world.goal[0] = 1
    place(env, other[0] + 0.19, other[1], np.pi)
    costs, shown = [], []
    for _ in range(12):
        obs, _, _, _, infos = env.step(np.array([[1.0, 0.0]]))
        costs.append(infos["cost_button"][0])
        shown.append(bool(obs[0, buttons_lidar].any()))
    assert costs == [0.0] * 10 + [1.0] * 2
    assert shown == [False] * 9 + [True] * 3


@pytest.mark.parametrize("task", TASK_NAMES)
def test_a_touch_is_a_contact_of_the_simulated_solids_in_any_sub_step(task):
    env = make(task)
    world, physics = env.world, env.world.physics
    model = physics.model
    solids = {model.geom(f"buttons{i}").id: i for i in range(4)}
    data, touches = mujoco.MjData(model), 0
    rng = np.random.default_rng(1)
    for step in range(300):
        if step % 30 == 0:
            # near a button, facing it
            angle, (x, y) = rng.uniform(0, 2 * np.pi), world.buttons[0, rng.integers(4)]
            place(env, x + 0.4 * np.cos(angle), y + 0.4 * np.sin(angle), angle + np.pi)
        physics_state, goal, cooldown = physics.state[0].copy(), world.goal[0], world.cooldown[0]
        _, _, _, _, infos = env.step(np.array([[1.0, 0.2]]) if step % 3 else np.array([[0.3, 1.0]]))

        mujoco.mj_setState(model, data, physics_state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        data.ctrl[:] = physics.controls[0, 0]
        touched = set()
        for substep in range(10):
            data.mocap_pos[:] = physics.mocap[0, substep]
            mujoco.mj_step(model, data)
            for contact in data.contact:
                touched |= {solids[geom] for geom in contact.geom if geom in solids}
        np.testing.assert_array_equal(data.qpos, physics.qpos[0])
        assert infos["goal_met"][0] == (goal in touched)
        assert infos["cost_button"][0] == (bool(touched - {goal}) and cooldown == 0)
        touches += len(touched)
    assert touches > 20


@pytest.mark.parametrize("robot", ROBOTS.values(), ids=list(ROBOTS))
def test_what_a_robot_feels_is_what_mujocos_sensors_read(robot):
    """Velocimeter, gyro and magnetometer at the robot's centre, against sensors added to the same model."""
    spec = load(robot.model)
    body = spec.body("robot")
    body.add_site(name="centre")
    kinds = (mujoco.mjtSensor.mjSENS_VELOCIMETER, mujoco.mjtSensor.mjSENS_GYRO, mujoco.mjtSensor.mjSENS_MAGNETOMETER)
    for kind in kinds:
        spec.add_sensor(type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="centre")
    model = spec.compile()
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    for _ in range(20):
        data.qpos[:] = rng.normal(size=model.nq)
        data.qvel[:] = rng.normal(size=model.nv)
        mujoco.mj_normalizeQuat(model, data.qpos)
        mujoco.mj_forward(model, data)
        felt = robot.feel(data.qpos[None], data.qvel[None], np.zeros((1, model.nv)))[0]
        np.testing.assert_allclose(felt[3:12], data.sensordata, atol=1e-12)
        if robot.senses == 24:
            np.testing.assert_allclose(felt[12:15], data.qvel[8:11])
            ball = np.empty(9)
            mujoco.mju_quat2Mat(ball, data.qpos[9:13])
            np.testing.assert_allclose(felt[15:24], ball, atol=1e-12)


def test_at_rest_the_accelerometer_reads_gravity_and_then_the_force_over_the_mass():
    env = make("Point-Goal")
    obs, _ = env.reset(seed=0)
    np.testing.assert_allclose(obs[0, :3], [0.0, 0.0, 9.81], rtol=1e-6)
    obs, *_ = env.step(np.array([[1.0, 0.0]]))
    mass = env.world.physics.model.body("robot").mass[0]
    speed = obs[0, 3]
    # at the step's last sub-step the motor's 0.015 N are less the damping of the speed then
    assert obs[0, 0] == pytest.approx((0.05 * 0.3 - 0.01 * speed) / mass, rel=0.02)


def test_the_fixed_layout_starts_at_its_place_with_random_heading_and_goal():
    env = TaskVectorEnv("Point-Goal", 200)
    env.reset(seed=0)
    qpos = env.world.physics.qpos
    assert (qpos[:, :2] == [0.14, 0.60]).all()
    assert abs(np.exp(1j * qpos[:, 2]).mean()) < 0.2
    assert np.bincount(env.world.goal, minlength=4).min() > 30


@pytest.mark.parametrize(
    "options", [{"start": "random"}, {"layout": "random"}, {"start": "random", "layout": "random"}]
)
@pytest.mark.parametrize("task", TASK_NAMES)
def test_random_places_overlap_nowhere_and_cost_nothing_at_the_start(task, options):
    env = TaskVectorEnv(task, 20, **options)
    for seed in (0, 100):
        env.reset(seed=seed)
        world = env.world
        starts, layout = world.physics.qpos[:, :2], world.task
        if "start" in options:
            assert len(np.unique(starts, axis=0)) == 20
        else:
            assert (starts == layout.start[:2]).all()
        assert (np.ptp(world.buttons, axis=0) > 0).all() == ("layout" in options)
        if "layout" in options:
            discs = [(hazards(world), layout.of("hazards").size), (world.buttons, 0.1), (world.gremlin_homes, 0.4414)]
            places = np.concatenate([discs[0][0], discs[1][0], discs[2][0]], axis=1)
            radii = np.concatenate([np.full(d[0].shape[1], d[1]) for d in discs])
            gaps = np.linalg.norm(places[:, :, None] - places[:, None], axis=-1) - radii - radii[:, None]
            assert (gaps[:, ~np.eye(len(radii), dtype=bool)] > 0).all()
            assert np.abs(places).max() <= 2.0
        _, _, _, _, infos = env.step(np.zeros((20, 2)))
        assert not infos["cost"].any()


def test_the_physics_model_has_the_robots_masses():
    point = navigation_model(PAPER["Point-Goal"]).body("robot").mass[0]
    assert point == pytest.approx(4 / 3 * np.pi * 0.1**3 + 0.1**3, rel=1e-9)
    car = navigation_model(PAPER["Car-Goal"])
    wheel = car.body("left_wheel").mass[0]
    assert wheel == pytest.approx(5 * np.pi * 0.05**2 * 0.05, rel=1e-9)
