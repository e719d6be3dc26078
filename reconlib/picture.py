"""One look for all figures, and a picture that carries its own description.

Figures are drawn without pyplot (no global state, nothing shown twice) on a light solid ground, which reads
the same on a light and on a dark page. Colours are Okabe and Ito's, told apart by the colour-blind.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

from reconlib.files import atomic_path

GROUND = "#fbfaf7"
INK = "#262626"
FAINT = "#6e6e6e"
GRID = "#e4e1da"
TRAINING = "#c1272d"  # red frames: what the network was trained on
RECONSTRUCTION = "#0072b2"  # blue frames: what its weights gave back
CONTROL = "#6e6e6e"
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#262626")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_LOOK: dict[Any, Any] = {
    "figure.facecolor": GROUND,
    "axes.facecolor": GROUND,
    "savefig.facecolor": GROUND,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "text.color": INK,
    "font.size": 9,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "svg.hashsalt": "reconlib",  # the same figure gives the same file
    "figure.constrained_layout.use": True,
}


@contextmanager
def look() -> Iterator[None]:
    """Draw and render in the book's look, whatever the caller's settings are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        yield


@dataclass(frozen=True)
class Picture:
    """A finished figure; a notebook shows it with its alternative text."""

    data: bytes = field(repr=False)  # a notebook keeps the repr beside the picture
    kind: str  # png | svg
    alt: str
    width: int  # in CSS pixels

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("a picture needs an alternative text: say what it shows and what to see in it")

    def _repr_html_(self) -> str:
        mime = {"png": "image/png", "svg": "image/svg+xml"}[self.kind]
        source = f"data:{mime};base64,{base64.b64encode(self.data).decode()}"
        style = "max-width:100%;height:auto"
        return f'<img src="{source}" alt="{html.escape(self.alt)}" width="{self.width}" style="{style}">'

    def save(self, path: str | Path) -> Path:
        """Write the file, whose suffix must be the picture's kind."""
        path = Path(path)
        if path.suffix != f".{self.kind}":
            raise ValueError(f"this picture is a .{self.kind}, not a {path.suffix or 'file without suffix'}")
        with atomic_path(path) as temporary:
            temporary.write_bytes(self.data)
        return path


def render(figure: Figure, alt: str, kind: str = "svg", dpi: int = 160) -> Picture:
    """Finish a figure as SVG (sharp at any size) or as a compact PNG; call it inside `look()`."""
    if kind not in ("svg", "png"):
        raise KeyError(f"unknown kind of picture {kind!r}; choose svg or png")
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    data = buffer.getvalue()
    if kind == "png":
        data = _compact(data)
    return Picture(data, kind, alt, round(figure.get_figwidth() * 100))


def _compact(data: bytes) -> bytes:
    """The same picture without the alpha channel, as small as lossless PNG gets."""
    small = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        image.convert("RGB").save(small, "PNG", optimize=True)
    return small.getvalue()
