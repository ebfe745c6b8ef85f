"""From one file format to another, with a list of what is lost on the way."""

from __future__ import annotations

from pathlib import Path

from nlink.formats.dh_writer import dh_losses, to_dh
from nlink.formats.files import write_text
from nlink.formats.load import SUFFIXES, load_description
from nlink.formats.mjcf_writer import mjcf_losses, to_mjcf
from nlink.formats.toml_writer import to_toml
from nlink.formats.urdf_writer import to_urdf, urdf_losses
from nlink.formats.visual_tables import SIZES
from nlink.model.description import Description, Physical
from nlink.model.pose import Convention


def convert(source: str | Path, target: str | Path, *, dh: Convention | None = None,
            physical: Physical = "warn", floating: bool = False, includes: bool = False,
            ) -> list[str]:
    """Write the robot of one file to another; the suffix says in which format.

    `dh` asks for a DH table in a .toml file, which serial arms have; else every row keeps the
    placement it has. `floating` frees the base body, `includes` allows an MJCF file to include
    others of its directory. With `physical="ignore"` numbers no real body has are written as
    they are, and a line says what is wrong with them. Returned is what was lost, a line for
    each kind: by the reader, then by the writer. The file is written in one step, or not at all.
    """
    check_target(target, dh)
    description = load_description(source, physical=physical, floating=floating,
                                   includes=includes)
    lost = write_description(description, target, dh)
    wrong = [description.objection] if physical == "ignore" and description.objection else []
    return [*(f"reading: {line}" for line in (*description.report, *wrong)),
            *(f"writing: {line}" for line in lost)]


def check_target(target: str | Path, dh: Convention | None) -> None:
    """Refuse a file that no robot can be written to."""
    suffix = Path(target).suffix
    if suffix not in SUFFIXES:
        raise ValueError(f"target: {str(target)!r} has the suffix {suffix!r}, expected one of "
                         f"{', '.join(SUFFIXES)}")
    if dh is not None and suffix != ".toml":
        raise ValueError(f"dh: {dh!r} is for a .toml file, and the target is {suffix}")


def write_description(description: Description, target: str | Path,
                      dh: Convention | None = None) -> list[str]:
    """Write a robot in the format that the suffix says, in one step; what is lost, a line each."""
    check_target(target, dh)
    text, lost = _written(description, Path(target).suffix, dh)
    kept = SIZES if Path(target).suffix == ".toml" and dh is None else ()
    left = sum(each.shape not in kept for each in description.visuals)
    if left:
        lost = [f"shapes and meshes for drawing left out: {left}", *lost]
    write_text(target, text)
    return lost


def _written(description: Description, suffix: str, dh: Convention | None,
             ) -> tuple[str, list[str]]:
    if suffix == ".urdf":
        return to_urdf(description), urdf_losses(description)
    if suffix == ".xml":
        return to_mjcf(description), mjcf_losses(description)
    if dh is not None:
        return to_toml(to_dh(description, dh)), dh_losses(description)
    return to_toml(description), []
