"""From a name or a path to a description."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from nlink.formats.dh import parse_toml
from nlink.formats.files import read_text
from nlink.model.description import Description, Physical

_BUNDLED = resources.files("nlink.formats") / "robots"


def robots() -> tuple[str, ...]:
    """Names of the robots that come with the package."""
    return tuple(sorted(item.name.removesuffix(".toml") for item in _BUNDLED.iterdir()
                        if item.name.endswith(".toml")))


def load_description(name_or_path: str | Path, *, physical: Physical = "warn") -> Description:
    """A bundled name, or the path of a .toml file."""
    text = str(name_or_path)
    path = Path(name_or_path)
    if not path.suffix and path.name == text:
        if text not in robots():
            raise ValueError(f"robot: {text!r} is not bundled, expected a path or one of "
                             f"{', '.join(robots())}")
        return parse_toml((_BUNDLED / f"{text}.toml").read_text("utf-8"), origin=text,
                          physical=physical)
    if path.suffix != ".toml":
        raise ValueError(f"robot: {text!r} has the suffix {path.suffix!r}, expected .toml")
    return parse_toml(read_text(path), origin=str(path), physical=physical)
