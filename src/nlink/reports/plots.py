"""Figures, drawn without a display and written in one step."""

from __future__ import annotations

import io
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nlink.formats.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, MUTED, RULE = "#1a1a1a", "#666666", "#d9d9d9"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
"""Okabe and Ito's palette, in an order whose neighbours differ for every kind of eye."""
STYLES = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))


FORMATS = {".png": "Software", ".svg": "Date", ".pdf": "CreationDate"}
"""Pictures by the ending of their name, and what of them would be another every time."""


def picture_path(name: str, path: str | Path) -> Path:
    """Where a picture can be written, or a sentence that says why it cannot."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{name}: {str(path)!r} has the suffix {path.suffix!r}, expected "
                         f"{', '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise ValueError(f"{name}: {str(path)!r} is in no directory that exists")
    return path


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as PNG, SVG or PDF, as its name ends."""
    from matplotlib import rc_context

    path, picture = picture_path("path", path), io.BytesIO()
    kind = path.suffix.lower()
    with rc_context({"svg.hashsalt": "nlink"}):
        figure.savefig(picture, format=kind[1:], dpi=160, metadata={FORMATS[kind]: None})
    write_bytes(path, picture.getvalue())
    return path


def inline_svg(figure: Figure) -> str:
    """A figure as SVG for a page, whose variables --ink, --muted, --rule and --c1 and on give
    the colours: it is as light or as dark as the page is."""
    from matplotlib import rc_context

    stream = io.StringIO()
    # the salt makes names within the picture, and so the page, the same every time
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "nlink"}):
        figure.savefig(stream, format="svg", transparent=True,
                       metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = stream.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</defs>", "",
                  text[text.index("<svg"):], flags=re.DOTALL)
    head, _, body = text.partition(">")
    head = re.sub(r' (?:xmlns(?::\w+)?|version|width|height)="[^"]*"', "", head)
    text = re.sub(r'<g id="[^"]*"', "<g", f"{head}>{body}")
    names = {INK: "--ink", MUTED: "--muted", RULE: "--rule"} | {
        colour: f"--c{k}" for k, colour in enumerate(COLOURS, 1)}
    for colour, name in names.items():
        text = text.replace(colour, f"var({name})")
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def require_matplotlib() -> None:
    """Refuse by a sentence that says what to install."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("plots need matplotlib: pip install nlink[plot]") from None


@cache
def figure_class() -> type[Figure]:
    """Figures that notebooks show without pyplot, and so without a window anywhere."""
    require_matplotlib()
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """A figure that a notebook shows as it is."""

        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png", dpi=110)
            return picture.getvalue()

    return ShownFigure


def steady(panel: Any) -> bool:
    """Whether what a panel shows is constant but for rounding and the like."""
    low, high = panel.dataLim.intervaly
    return high - low < max(1e-9, 1e-6 * max(abs(low), abs(high)))


def least_span(panel: Any, scale: float) -> None:
    """An axis of y that shows a tenth of a scale at least: what is constant but for rounding
    looks constant."""
    low, high = panel.dataLim.intervaly
    if high - low < 0.1 * scale:
        middle = (low + high) / 2
        panel.set_ylim(middle - 0.055 * scale, middle + 0.055 * scale)


def dress(panel: Any, title: str, unit: str, *, log: bool = False) -> None:
    """A panel's title, unit, grid and ticks."""
    panel.set_title(title, loc="left", fontsize=10, color=INK, fontweight="bold")
    panel.set_title(unit, loc="right", fontsize=9, color=MUTED)
    low, high = panel.get_ylim()
    if not log and low <= 0 <= high:
        panel.axhline(0, color=RULE, linewidth=1, zorder=0)
    panel.grid(axis="y", color=RULE, linewidth=0.5, alpha=0.7)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.spines["bottom"].set_color(RULE)
    panel.tick_params(colors=MUTED, labelsize=8.5, length=0)
    if log:
        panel.minorticks_off()
        return
    panel.locator_params(axis="y", nbins=5)
    if steady(panel):
        low, high = panel.dataLim.intervaly
        middle, room = (low + high) / 2, max(1.0, abs(low) / 10)
        panel.set_ylim(middle - room, middle + room)


def head(figure: Figure, title: str, subtitle: str, panel: Any) -> None:
    """A figure's title, and a legend of the curves in `panel` if there are several."""
    height = figure.get_figheight()
    figure.text(0.012, 1 - 0.12 / height, title, fontsize=13, fontweight="bold", color=INK,
                va="top")
    figure.text(0.012, 1 - 0.38 / height, subtitle, fontsize=9.5, color=MUTED, va="top")
    if panel is None:
        return
    handles, labels = panel.get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="upper right", ncols=len(labels), frameon=False,
                      fontsize=9.5, labelcolor=INK, bbox_to_anchor=(0.995, 1.0))
