"""The paper's Goal and Button tasks as descriptions: fixed layouts, larger time steps and shorter episodes."""

from __future__ import annotations

from cvpo.tasks.description import NavigationTask, Objects, Place


def _objects(kind: str, places: tuple[Place, ...], **settings) -> Objects:
    return Objects(kind, len(places), places=places, cost=True, **settings)


_GOAL_OBJECTS = (
    Objects("goal", size=0.2),
    _objects(
        "hazards",
        (
            (0.1, -1.9), (-0.2, 1.7), (0.3, 0.1), (2, -0.1), (-1.8, 0.2), (-0.1, -1.2),
            (0, 1.3), (1.1, 0), (-1, 0), (0.2, -0.9), (-1.1, 1.1),
        ),
        size=0.22, info=("cost_hazard",),
    ),
    _objects("buttons", ((-1.1, -1.3), (1.8, -1.5), (-1.4, 0.6), (1.0, 1.3)), info=("cost_button",)),
)  # fmt: skip

_BUTTON_OBJECTS = (
    Objects("goal", size=0.2),
    _objects("hazards", ((0, -1.9), (0, 1.9), (0, 0), (1.9, 0), (-1.9, 0)), size=0.17, info=("cost_hazard",)),
    _objects("buttons", ((-1.3, -1.3), (1.3, -1.3), (-1.3, 1.3), (1.3, 1.3)), info=("cost_button",)),
    _objects("gremlins", ((0, -1.3), (0, 1.3), (1.3, 0), (-1.3, 0)), orbit=0.3, rigid=True, info=("cost_gremlin",)),
)


def _task(robot: str, objects: tuple[Objects, ...], start: Place, summary: str) -> NavigationTask:
    return NavigationTask(
        robot=robot, reward="button", objects=objects, arena=2.0, start=(*start, *start), episode_length=400,
        cost_limit=10.0, touch="any", summary=summary,
    )  # fmt: skip


_GOAL = "press the marked button, again and again, around fixed hazards and the other buttons"
_BUTTON = "press the marked button, again and again, while boxes circle between the buttons"

PAPER: dict[str, NavigationTask] = {
    "Point-Goal": _task("PaperPoint", _GOAL_OBJECTS, (0.14, 0.60), f"Point: {_GOAL}"),
    "Car-Goal": _task("PaperCar", _GOAL_OBJECTS, (0.14, 0.60), f"Two-wheel car: {_GOAL}"),
    "Point-Button": _task("PaperPoint", _BUTTON_OBJECTS, (0.7, 0.7), f"Point: {_BUTTON}"),
    "Car-Button": _task("PaperCar", _BUTTON_OBJECTS, (0.7, 0.7), f"Two-wheel car: {_BUTTON}"),
}
