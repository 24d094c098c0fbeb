"""MuJoCo's own three-dimensional picture, where OpenGL is available."""

import mujoco
import numpy as np

from cvpo.errors import Unavailable
from cvpo.tasks.shapes import Disc, Polygon, Shape

_SIZE = 480
_COLOURS = {"hazard": (0.9, 0.35, 0.28, 0.5), "goal": (0.18, 0.68, 0.4, 0.6), "track": (0.18, 0.68, 0.4, 0.25)}


class Camera:
    """Looks at a world from above its edge, or at a robot from its side."""

    def __init__(self, model: mujoco.MjModel, extent: float, side: bool = False):
        try:
            self._renderer = mujoco.Renderer(model, _SIZE, _SIZE)
        except Exception as error:
            raise Unavailable(
                f"the 3D picture needs OpenGL, which is not available here ({error}). Use view='top', which "
                "needs none, or install a GL library and choose it before Python starts: MUJOCO_GL=egl "
                "(GPU or Mesa), MUJOCO_GL=osmesa (software) or MUJOCO_GL=glfw (with a display)"
            ) from error
        self._extent = extent
        # Gymnasium's models have lamps and a floor of their own
        self._own_floor = not model.nlight
        if self._own_floor:
            model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.45, 0.6
        self._view = mujoco.MjvCamera()
        elevation, self._lookat_height = (-15.0, 0.8) if side else (-50.0, 0.0)
        self._view.distance, self._view.elevation, self._view.azimuth = 2.6 * extent, elevation, 90.0

    def picture(self, data: mujoco.MjData, marks: list[Shape], middle: tuple[float, float]) -> np.ndarray:
        """[480, 480, 3] bytes, of what is around `middle`."""
        self._view.lookat[:2], self._view.lookat[2] = middle, self._lookat_height
        self._renderer.update_scene(data, self._view)
        if self._own_floor:
            floor = [4.0 * self._extent, 4.0 * self._extent, 0.001]
            self._add(mujoco.mjtGeom.mjGEOM_BOX, floor, [*middle, -0.002], (0.93, 0.94, 0.95, 1.0))
        for mark in marks:
            colour = _COLOURS.get(mark.look)
            match mark:
                case Disc(x, y, radius) if colour:
                    self._add(mujoco.mjtGeom.mjGEOM_CYLINDER, [radius, 0.003, 0.0], [x, y, 0.003], colour)
                case Polygon(corners) if colour:
                    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
                    size, centre = (high - low) / 2, (high + low) / 2
                    self._add(mujoco.mjtGeom.mjGEOM_BOX, [*size, 0.003], [*centre, 0.003], colour)
        return self._renderer.render()

    def close(self) -> None:
        """Give the GL context back."""
        self._renderer.close()

    def _add(self, shape: mujoco.mjtGeom, size: list[float], place: list[float], colour: tuple[float, ...]) -> None:
        scene = self._renderer.scene
        mujoco.mjv_initGeom(
            scene.geoms[scene.ngeom], shape, np.array(size), np.array(place), np.eye(3).ravel(), np.array(colour, "f4")
        )
        scene.ngeom += 1
