import subprocess
import sys

import numpy as np
import pytest
from driving import hazards, place
from PIL import Image

from cvpo.tasks import TASKS
from cvpo.tasks.drawing.film import write_film
from cvpo.tasks.drawing.topdown import SIZE
from cvpo.tasks.vector_env import TaskVectorEnv

# Each robot, and each kind of object.
SOME = [
    "Car-Circle", "Point-Button", "Car-Goal", "SafetyPointGoal2", "SafetyCarButton1", "SafetyPointPush2",
    "SafetyCarCircle2", "SafetyPointRun0", "SafetyHalfCheetahVelocity", "SafetySwimmerVelocity",
    "SafetyHumanoidVelocity",
]  # fmt: skip


def pixel(env, picture, x, y):
    """The colour of the place (x, y) in metres."""
    extent = env.world.extent
    column, row = (x + extent) / (2 * extent) * SIZE, (extent - y) / (2 * extent) * SIZE
    return picture[int(row), int(column)].astype(int)


def is_red(colour):
    return colour[0] > colour[1] + 15 and colour[0] > colour[2] + 15


def is_green(colour):
    return colour[1] > colour[0] + 15 and colour[1] > colour[2] + 15


def is_blue(colour):
    return colour[2] > colour[0] + 30


@pytest.mark.parametrize("task", SOME)
def test_one_picture_for_each_environment_and_none_without_a_render_mode(task):
    env = TaskVectorEnv(task, 2, render_mode="rgb_array")
    env.reset(seed=0)
    first, second = env.render()
    assert first.shape == second.shape and first.shape[1:] == (SIZE, 3) and first.dtype == np.uint8
    assert (first != second).any()
    env.step(np.ones((2, TASKS[task].action_size)))
    assert (env.render()[0] != first).any()
    assert TaskVectorEnv(task, 2).render() is None


def test_the_picture_names_the_limit_it_is_given():
    pictures = []
    for limit in (None, 10.0, 25.0):
        env = TaskVectorEnv("Point-Goal", 1, render_mode="rgb_array", shown_limit=limit)
        env.reset(seed=0)
        pictures.append(env.render()[0])
    assert (pictures[0] == pictures[1]).all() and (pictures[0] != pictures[2]).any()


def test_objects_are_where_the_physics_has_them():
    env = TaskVectorEnv("Point-Goal", 1, render_mode="rgb_array")
    env.reset(seed=0)
    world, picture = env.world, env.render()[0]
    for x, y in hazards(world)[0]:
        assert is_red(pixel(env, picture, x + 0.1, y))
    for i, (x, y) in enumerate(world.buttons[0]):
        # the ring around the goal, and only around it
        assert is_green(pixel(env, picture, x + 0.15, y)) == (i == world.goal[0])
    x, y, heading = world.pose(0)
    nose = x + 0.12 * np.cos(heading), y + 0.12 * np.sin(heading)
    assert is_blue(pixel(env, picture, *nose))
    tail = x - 0.13 * np.cos(heading), y - 0.13 * np.sin(heading)
    assert not is_blue(pixel(env, picture, *tail))


def colour_of(env, kind, i=0):
    """The colour that the model has for an object of a kind."""
    model = env.world.physics.model
    return (255 * model.geom_rgba[model.body(f"{kind}{i}").geomadr[0], :3]).astype(int)


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("SafetyPointGoal2", "vases"),
        ("SafetyPointPush2", "pillars"),
        ("SafetyPointPush2", "push_box"),
        ("SafetyPointButton1", "gremlins"),
        ("SafetyPointButton1", "buttons"),
    ],
)
def test_every_solid_is_drawn_where_it_is(task, kind):
    env = TaskVectorEnv(task, 1, render_mode="rgb_array")
    env.reset(seed=1)
    for _ in range(5):
        env.step(np.zeros((1, 2)))
    picture = env.render()[0]
    places = env.world.objects[0, env.world.task.slice_of(kind)]
    for i, (x, y) in enumerate(places):
        np.testing.assert_allclose(pixel(env, picture, x, y), colour_of(env, kind, i), atol=3)


def test_beyond_a_wall_is_red_and_between_walls_is_not():
    env = TaskVectorEnv("SafetyPointCircle2", 1, render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()[0]
    for x, y in ((1.3, 0.9), (-1.3, 0.9), (0.9, 1.3), (0.9, -1.3)):
        assert is_red(pixel(env, picture, x, y))
    assert not is_red(pixel(env, picture, 0.9, 0.9))


def test_a_picture_of_a_runner_follows_it_from_the_side():
    env = TaskVectorEnv("SafetyHopperVelocity", 1, render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()[0]
    env.world.physics.qpos[0, 0] += 10.0
    env.world._place[0, 0] += 10.0
    # ten squares of the grid further it looks the same, up to rounding
    assert np.mean(np.abs(env.render()[0].astype(int) - before) > 20) < 0.01
    skin = np.abs(before.astype(int) - (205, 153, 102)).max(axis=-1) < 30
    rows, columns = np.nonzero(skin)
    assert np.ptp(rows) > 2 * np.ptp(columns)


def test_gremlins_are_drawn_where_they_are_also_before_the_first_step():
    env = TaskVectorEnv("Point-Button", 2)
    for seed in (0, 1):
        env.reset(seed=seed)
        buttons = env.world.buttons.shape[1]
        for i in range(2):
            np.testing.assert_allclose(env.world.physics.snapshot(i).mocap_pos[buttons:, :2], env.world.gremlins[i])
        env.step(np.zeros((2, 2)))


def test_a_cost_flashes_and_the_trail_of_an_old_episode_is_gone():
    env = TaskVectorEnv("Point-Goal", 1, render_mode="rgb_array")
    env.reset(seed=0)
    env.step(np.zeros((1, 2)))
    assert not is_red(env.render()[0][2, 240])
    place(env, *hazards(env.world)[0, 2], 0.0)
    env.step(np.zeros((1, 2)))
    assert is_red(env.render()[0][2, 240])
    env.reset(seed=0)
    fresh = TaskVectorEnv("Point-Goal", 1, render_mode="rgb_array")
    fresh.reset(seed=0)
    np.testing.assert_array_equal(env.render()[0], fresh.render()[0])


def test_a_robot_outside_the_arena_stays_in_the_picture():
    env = TaskVectorEnv("Point-Goal", 1, render_mode="rgb_array")
    env.reset(seed=0)
    place(env, 9.0, 0.0, 0.0)
    picture = env.render()[0].astype(int)
    blue = (picture[..., 2] > picture[..., 0] + 60) & (picture[..., 2] > 120)
    assert blue[:SIZE, int(0.9 * SIZE) :].any()


def test_drawing_from_above_loads_no_graphics_library():
    code = (
        "import sys, numpy as np; from cvpo.tasks.vector_env import TaskVectorEnv;"
        "env = TaskVectorEnv('Car-Button', 1, render_mode='rgb_array'); env.reset(seed=0); env.render();"
        "sys.exit(any(name.split('.')[0] in ('OpenGL', 'jax') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], env={"MUJOCO_GL": "disabled"}, check=False).returncode == 0


def test_without_gl_the_3d_view_names_the_remedy():
    code = (
        "from cvpo.tasks.vector_env import TaskVectorEnv\n"
        "try: TaskVectorEnv('Car-Goal', 1, render_mode='rgb_array', view='3d')\n"
        "except RuntimeError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"MUJOCO_GL": "disabled"}, capture_output=True, text=True, check=True
    )
    assert "view='top'" in done.stdout and "MUJOCO_GL=egl" in done.stdout


FRAMES = [np.full((34, 20, 3), shade, dtype=np.uint8) for shade in (0, 80, 160, 240)]


def test_a_gif_holds_every_frame_at_its_pace(tmp_path):
    path = write_film(tmp_path / "new" / "film.gif", FRAMES, fps=10)
    with Image.open(path) as film:
        assert film.n_frames == 4 and film.size == (20, 34)
        assert film.info["duration"] == 100


def test_an_mp4_holds_every_frame(tmp_path):
    imageio = pytest.importorskip("imageio.v3")
    path = write_film(tmp_path / "film.mp4", FRAMES, fps=10)
    frames = imageio.imread(path)
    assert frames.shape == (4, 34, 20, 3)
    np.testing.assert_allclose(frames.mean(axis=(1, 2, 3)), [0, 80, 160, 240], atol=6)


def test_without_ffmpeg_an_mp4_becomes_a_gif(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    path = write_film(tmp_path / "film.mp4", FRAMES, fps=10)
    assert path == tmp_path / "film.gif" and path.exists()


@pytest.mark.parametrize(
    ("name", "frames", "fps", "message"),
    [
        ("film.avi", FRAMES, 10, "film.avi"),
        ("film.gif", [], 10, "no frames"),
        ("film.gif", FRAMES, 0, "fps must be positive, got 0"),
    ],
)
def test_films_that_cannot_be(tmp_path, name, frames, fps, message):
    with pytest.raises(ValueError, match=message):
        write_film(tmp_path / name, frames, fps)
