"""The picture from above, drawn by pillow alone."""

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
) -> np.ndarray:
    """A picture [SIZE + caption, SIZE, 3] bytes of the world seen from above.

    Args:
      model, data: what is simulated; every coloured geom is drawn as the shape it has from above.
      marks: what lies on the floor.
      pose: the robot's x, y and driving direction, marked by an arrow.
      trail: [T, 3] where the robot was, x and y, and each step's cost; the last row is now.
      extent: half the side of the square that is shown, in metres; more is shown when the robot leaves it.
      caption: text at the left and at the right of the lower edge.
    """
    side = SIZE * _SCALE
    shown = max(extent, _MARGIN * max(abs(pose[0]), abs(pose[1])))
    image = Image.new("RGB", (side, side + _CAPTION * _SCALE), _BACKGROUND)
    canvas = _Canvas(ImageDraw.Draw(image, "RGBA"), side / (2.0 * shown), shown)
    canvas.grid()
    for mark in marks:
        canvas.shape(mark)
    canvas.trail(trail)
    for geom in sorted(range(model.ngeom), key=lambda geom: data.geom_xpos[geom, 2]):
        canvas.geom(model, data, geom)
    canvas.arrow(*pose, _ARROW * extent)
    costly = bool(len(trail)) and trail[-1, 2] > 0
    if costly:
        canvas.flash(side)
    canvas.caption(side, caption, costly)
    return np.asarray(image.resize((SIZE, SIZE + _CAPTION), Image.Resampling.BOX))


class _Canvas:
    """Draws in metres."""

    def __init__(self, pen: ImageDraw.ImageDraw, pixels_per_metre: float, extent: float):
        self.pen, self.zoom, self.extent = pen, pixels_per_metre, extent

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (x + self.extent) * self.zoom, (self.extent - y) * self.zoom

    def grid(self) -> None:
        for line in range(int(-self.extent), int(self.extent) + 1):
            self.pen.line([self.at(line, -self.extent), self.at(line, self.extent)], _GRID, _SCALE)
            self.pen.line([self.at(-self.extent, line), self.at(self.extent, line)], _GRID, _SCALE)

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
        x, y, _ = data.geom_xpos[geom]
        size, rotation = model.geom_size[geom], data.geom_xmat[geom].reshape(3, 3)
        edge = (*(int(0.7 * channel) for channel in colour[:3]), 255)
        match model.geom_type[geom]:
            case _ if not colour[3]:
                return
            case mujoco.mjtGeom.mjGEOM_SPHERE:
                self.disc(x, y, size[0], colour, edge, _SCALE)
            case mujoco.mjtGeom.mjGEOM_BOX:
                self.rectangle(x, y, size[0] * rotation[:2, 0], size[1] * rotation[:2, 1], colour, edge)
            case mujoco.mjtGeom.mjGEOM_CYLINDER:
                # a wheel: its axle lies in the plane, and it rolls across it
                axle = rotation[:2, 2]
                self.rectangle(x, y, size[1] * axle, size[0] * np.array([-axle[1], axle[0]]), colour, edge)

    def rectangle(self, x: float, y: float, half_a: np.ndarray, half_b: np.ndarray, fill, outline) -> None:
        corners = [half_a + half_b, half_a - half_b, -half_a - half_b, -half_a + half_b]
        self.pen.polygon([self.at(x + dx, y + dy) for dx, dy in corners], fill, outline, _SCALE)

    def arrow(self, x: float, y: float, angle: float, length: float) -> None:
        tip, left, right = angle, angle + 2.4, angle - 2.4
        corners = [self.at(x + length * np.cos(a), y + length * np.sin(a)) for a in (tip, left, right)]
        self.pen.polygon(corners, (255, 255, 255, 230))

    def flash(self, side: int) -> None:
        self.pen.rectangle((0, 0, side - 1, side - 1), None, (*_COST, 220), 5 * _SCALE)

    def caption(self, side: int, caption: tuple[str, str], costly: bool) -> None:
        self.pen.rectangle((0, side, side, side + _CAPTION * _SCALE), (255, 255, 255, 255))
        font, middle = _font(15 * _SCALE), side + _CAPTION * _SCALE / 2
        self.pen.text((12 * _SCALE, middle), caption[0], _INK, font, "lm")
        self.pen.text((side - 12 * _SCALE, middle), caption[1], _COST if costly else _INK, font, "rm")
