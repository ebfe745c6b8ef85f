"""From a name or a path to a description."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

from nlink.formats.dh import parse_toml
from nlink.formats.files import read_text
from nlink.model.description import Description, Physical
from nlink.model.editing import floated
from nlink.model.names import did_you_mean

_BUNDLED = resources.files("nlink.formats") / "robots"
SUFFIXES = (".toml", ".urdf", ".xml")


def robots() -> tuple[str, ...]:
    """Names of the robots that come with the package.

    >>> import nlink
    >>> "puma560" in nlink.robots()
    True
    """
    return tuple(sorted(item.name.removesuffix(".toml") for item in _BUNDLED.iterdir()
                        if item.name.endswith(".toml")))


def load_description(name_or_path: str | Path, *, physical: Physical = "warn",
                     floating: bool = False, includes: bool = False) -> Description:
    """A bundled name, or the path of a .toml (DH, trees), .urdf or .xml (MJCF) file.

    `includes` allows an MJCF file to include others of its own directory.
    """
    if not floating:
        return _read(name_or_path, physical, includes)
    fixed = _read(name_or_path, "ignore", includes)  # what floats is judged, once
    return replace(floated(fixed), physical=physical)


def _read(name_or_path: str | Path, physical: Physical, includes: bool) -> Description:
    text = str(name_or_path)
    path = Path(name_or_path)
    if not path.suffix and path.name == text:
        if text not in robots():
            raise ValueError(f"robot: {text!r} is not bundled, expected a path or one of "
                             f"{', '.join(robots())}{did_you_mean(text, robots())}")
        return parse_toml((_BUNDLED / f"{text}.toml").read_text("utf-8"), origin=text,
                          physical=physical)
    if path.suffix == ".urdf":
        from nlink.formats.urdf import read_urdf

        return read_urdf(path, physical=physical)
    if path.suffix == ".xml":
        from nlink.formats.mjcf import read_mjcf

        return read_mjcf(path, physical=physical, includes=includes)
    if path.suffix != ".toml":
        raise ValueError(f"robot: {text!r} has the suffix {path.suffix!r}, "
                         f"expected one of {', '.join(SUFFIXES)}")
    return parse_toml(read_text(path), origin=str(path), physical=physical)
