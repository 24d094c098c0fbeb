"""Films: frames into an mp4 or a gif."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from cvpo.errors import BadValue


def write_film(path: str | Path, frames: Iterable[np.ndarray], fps: float) -> Path:
    """Write `frames`, each [height, width, 3] bytes, and return the path written.

    An .mp4 needs imageio with ffmpeg (the extra `video`); without it a .gif of the same name is written instead. A .gif
    needs nothing.
    """
    path = Path(path)
    if path.suffix not in (".mp4", ".gif"):
        raise BadValue(f"a film is an .mp4 or a .gif, got {path.name!r}")
    if fps <= 0:
        raise BadValue(f"fps must be positive, got {fps}")
    pictures = [np.asarray(frame, dtype=np.uint8) for frame in frames]
    if not pictures:
        raise BadValue(f"there are no frames to write to {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".mp4":
        try:
            _write_mp4(path, pictures, fps)
            return path
        except ImportError:
            path = path.with_suffix(".gif")
    _write_gif(path, pictures, fps)
    return path


def _write_mp4(path: Path, pictures: list[np.ndarray], fps: float) -> None:
    import imageio.v3 as imageio
    import imageio_ffmpeg  # noqa: F401  (imageio finds it by itself; without it the error would be obscure)

    # the codec wants sides of even length
    height, width = (side // 2 * 2 for side in pictures[0].shape[:2])
    even = np.stack([picture[:height, :width] for picture in pictures])
    imageio.imwrite(path, even, plugin="FFMPEG", fps=fps, macro_block_size=2, quality=8)


def _write_gif(path: Path, pictures: list[np.ndarray], fps: float) -> None:
    first, *rest = [Image.fromarray(picture) for picture in pictures]
    # viewers slow down frames shorter than 20 ms
    duration = max(20, round(1000 / fps))
    first.save(path, save_all=True, append_images=rest, duration=duration, loop=0)
