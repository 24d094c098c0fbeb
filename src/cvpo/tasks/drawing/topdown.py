"""The picture from above or from the side, drawn by pillow alone."""

import functools

import mujoco
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cvpo.tasks.shapes import Disc, Polygon, Shape

SIZE = 480
_CAPTION = 36
# Drawn so many times larger and scaled down: smooth edges.
_SCALE = 3
# A robot outside the arena stays in the picture, a little from its edge.
_MARGIN = 1.05
# The arrow's length, of the arena's half side: it fits on the robots.
_ARROW = 0.022

_INK = (38, 44, 56)
_COST = (214, 48, 49)
_TRAIL = (60, 120, 200)
_BACKGROUND = (232, 234, 237)
_GRID = (218, 221, 226)
_FLOOR = (140, 147, 160)
# How much a picture from the side shows below the floor, in metres.
_BELOW_FLOOR = 0.4
# A cylinder whose axis is shorter than that in the picture stands upright.
_UPRIGHT = 0.1

# look -> fill and outline (or None), red green blue alpha
_LOOKS: dict[str, tuple[tuple[int, ...] | None, tuple[int, ...] | None]] = {
    "ground": ((247, 248, 250, 255), (140, 147, 160, 255)),
    "hazard": ((230, 90, 70, 70), (230, 90, 70, 150)),
    "goal": ((46, 172, 102, 100), (46, 172, 102, 255)),
    "track": (None, (46, 172, 102, 200)),
}


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)


def draw(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    marks: list[Shape],
    pose: tuple[float, float, float],
    trail: np.ndarray,
    extent: float,
    caption: tuple[str, str],
    *,
    follow: bool = False,
    side: bool = False,
) -> np.ndarray:
    """A picture [SIZE + caption, SIZE, 3] bytes of the world seen from above, or from the side.

    Args:
      model, data: what is simulated; every coloured geom is drawn as the shape it has from above.
      marks: what lies on the floor.
      pose: the robot's x, y and driving direction, marked by an arrow.
      trail: [T, 3] where the robot was, x and y, and each step's cost; the last row is now.
      extent: half the side of the square that is shown, in metres; more is shown when the robot leaves it.
      caption: text at the left and at the right of the lower edge.
      follow: keep the robot in the middle of the picture.
      side: look along y: the picture shows x and z, from a little below the floor on.
    """
    width = SIZE * _SCALE
    shown = extent if follow else max(extent, _MARGIN * max(abs(pose[0]), abs(pose[1])))
    middle = (pose[0], shown - _BELOW_FLOOR) if side else pose[:2] if follow else (0.0, 0.0)
    image = Image.new("RGB", (width, width + _CAPTION * _SCALE), _BACKGROUND)
    canvas = _Canvas(ImageDraw.Draw(image, "RGBA"), width / (2.0 * shown), shown, middle, side)
    canvas.grid()
    for mark in marks:
        canvas.shape(mark)
    canvas.trail(trail)
    depth = -data.geom_xpos[:, 1] if side else data.geom_xpos[:, 2]
    for geom in sorted(range(model.ngeom), key=lambda geom: depth[geom]):
        canvas.geom(model, data, geom)
    if not side:
        canvas.arrow(*pose, _ARROW * extent)
    costly = bool(len(trail)) and trail[-1, 2] > 0
    if costly:
        canvas.flash(width)
    canvas.caption(width, caption, costly)
    return np.asarray(image.resize((SIZE, SIZE + _CAPTION), Image.Resampling.BOX))


class _Canvas:
    """Draws in metres, around `middle`."""

    def __init__(
        self,
        pen: ImageDraw.ImageDraw,
        pixels_per_metre: float,
        extent: float,
        middle: tuple[float, float],
        side: bool,
    ):
        self.pen, self.zoom, self.extent, self.middle = pen, pixels_per_metre, extent, middle
        # the axes of the world that the picture shows
        self.axes = [0, 2] if side else [0, 1]

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (x - self.middle[0] + self.extent) * self.zoom, (self.extent - (y - self.middle[1])) * self.zoom

    def grid(self) -> None:
        left, bottom = self.middle[0] - self.extent, self.middle[1] - self.extent
        right, top = self.middle[0] + self.extent, self.middle[1] + self.extent
        for line in range(int(left), int(right) + 1):
            self.pen.line([self.at(line, bottom), self.at(line, top)], _GRID, _SCALE)
        for line in range(int(bottom), int(top) + 1):
            self.pen.line([self.at(left, line), self.at(right, line)], _GRID, _SCALE)
        if self.axes == [0, 2]:
            self.pen.line([self.at(left, 0.0), self.at(right, 0.0)], _FLOOR, 2 * _SCALE)

    def shape(self, shape: Shape) -> None:
        fill, outline = _LOOKS[shape.look]
        match shape:
            case Disc(x, y, radius):
                self.disc(x, y, radius, fill, outline, 2 * _SCALE)
            case Polygon(corners):
                self.pen.polygon([self.at(*corner) for corner in corners], fill, outline, _SCALE)

    def disc(self, x: float, y: float, radius: float, fill, outline=None, width: int = 1) -> None:
        left, top = self.at(x - radius, y + radius)
        right, bottom = self.at(x + radius, y - radius)
        self.pen.ellipse((left, top, right, bottom), fill, outline, width)

    def trail(self, trail: np.ndarray) -> None:
        points = [self.at(x, y) for x, y, _ in trail]
        for step in range(1, len(trail)):
            # older parts fade
            alpha = int(40 + 150 * step / len(trail))
            colour = (*(_COST if trail[step, 2] else _TRAIL), alpha)
            self.pen.line([points[step - 1], points[step]], colour, 2 * _SCALE)

    def geom(self, model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> None:
        colour = tuple(int(255 * channel) for channel in model.geom_rgba[geom])
        x, y = data.geom_xpos[geom, self.axes]
        size, rotation = model.geom_size[geom], data.geom_xmat[geom].reshape(3, 3)[self.axes]
        edge = (*(int(0.7 * channel) for channel in colour[:3]), 255)
        match model.geom_type[geom]:
            case _ if not colour[3]:
                return
            case mujoco.mjtGeom.mjGEOM_SPHERE:
                self.disc(x, y, size[0], colour, edge, _SCALE)
            case mujoco.mjtGeom.mjGEOM_BOX:
                self.rectangle(x, y, size[0] * rotation[:, 0], size[1] * rotation[:, 1], colour, edge)
            case mujoco.mjtGeom.mjGEOM_CYLINDER if np.linalg.norm(rotation[:, 2]) < _UPRIGHT:
                self.disc(x, y, size[0], colour, edge, _SCALE)
            case mujoco.mjtGeom.mjGEOM_CYLINDER:
                # a wheel: its axle lies in the plane, and it rolls across it
                axle = rotation[:, 2]
                self.rectangle(x, y, size[1] * axle, size[0] * np.array([-axle[1], axle[0]]), colour, edge)
            case mujoco.mjtGeom.mjGEOM_CAPSULE:
                half = size[1] * rotation[:, 2]
                self.capsule(np.array([x, y]), half, size[0] + _SCALE / self.zoom, edge)
                self.capsule(np.array([x, y]), half, size[0], colour)

    def capsule(self, middle: np.ndarray, half: np.ndarray, radius: float, fill) -> None:
        ends = middle - half, middle + half
        self.pen.line([self.at(*end) for end in ends], fill, round(2 * radius * self.zoom))
        for end in ends:
            self.disc(end[0], end[1], radius, fill)

    def rectangle(self, x: float, y: float, half_a: np.ndarray, half_b: np.ndarray, fill, outline) -> None:
        corners = [half_a + half_b, half_a - half_b, -half_a - half_b, -half_a + half_b]
        self.pen.polygon([self.at(x + dx, y + dy) for dx, dy in corners], fill, outline, _SCALE)

    def arrow(self, x: float, y: float, angle: float, length: float) -> None:
        tip, left, right = angle, angle + 2.4, angle - 2.4
        corners = [self.at(x + length * np.cos(a), y + length * np.sin(a)) for a in (tip, left, right)]
        self.pen.polygon(corners, (255, 255, 255, 230))

    def flash(self, width: int) -> None:
        self.pen.rectangle((0, 0, width - 1, width - 1), None, (*_COST, 220), 5 * _SCALE)

    def caption(self, width: int, caption: tuple[str, str], costly: bool) -> None:
        self.pen.rectangle((0, width, width, width + _CAPTION * _SCALE), (255, 255, 255, 255))
        font, middle = _font(15 * _SCALE), width + _CAPTION * _SCALE / 2
        self.pen.text((12 * _SCALE, middle), caption[0], _INK, font, "lm")
        self.pen.text((width - 12 * _SCALE, middle), caption[1], _COST if costly else _INK, font, "rm")
