"""From a name or a path to a description."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

from nlink.formats.dh import parse_toml
from nlink.formats.files import read_text
from nlink.model.description import Description, Joint, Physical
from nlink.model.joints import Fixed, Free

_BUNDLED = resources.files("nlink.formats") / "robots"
SUFFIXES = (".toml", ".urdf", ".xml")


def robots() -> tuple[str, ...]:
    """Names of the robots that come with the package."""
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
                             f"{', '.join(robots())}")
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


def floated(description: Description) -> Description:
    """The mechanism with its base body free [RK88, Appendix B].

    The base body is the one link that hangs on the base, by a fixed joint: a URDF's root link,
    the first row of a TOML file if it is fixed. Its joint becomes free and keeps its name and
    place. A mechanism that floats already is returned as it is.

    >>> floated(load_description("planar3"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: floating: planar3 has no base body: joint 'joint1' of the base is revolute, ...
    """
    on_base = [joint for joint in description.joints if joint.parent == 0]
    if _floats(description, on_base):
        return description
    if len(on_base) != 1:
        raise ValueError(f"floating: {description.name} has {len(on_base)} links on the base, "
                         "expected one base body that carries the rest")
    if not isinstance(on_base[0].type, Fixed):
        raise ValueError(f"floating: {description.name} has no base body: joint "
                         f"{on_base[0].name!r} of the base is {on_base[0].type.name}, "
                         "expected one fixed joint that carries a link to be freed")
    joints = tuple(replace(joint, type=Free()) if joint.parent == 0 else joint
                   for joint in description.joints)
    return replace(description, joints=joints)


def _floats(description: Description, on_base: list[Joint]) -> bool:
    """Whether all that moves hangs on one free joint, perhaps beyond a massless world link."""
    if len(on_base) == 1 and isinstance(on_base[0].type, Fixed):
        first = description.joints.index(on_base[0]) + 1
        carried = [joint for joint in description.joints if joint.parent == first]
        return not description.links[first - 1].mass and _floats_on(carried)
    return _floats_on(on_base)


def _floats_on(joints: list[Joint]) -> bool:
    return len(joints) == 1 and isinstance(joints[0].type, Free)
