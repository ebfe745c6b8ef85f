"""Several mechanisms as one: a forest on one base, each tree with its own names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nlink.model.description import Description, Frame, Joint, Link
from nlink.model.editing import edited
from nlink.model.joints import Free
from nlink.model.names import base_name
from nlink.model.shapes import SolidShape, moments
from nlink.model.world import Collision, World

NAMED = ("links", "frames", "joints", "loops", "gears", "actuators")


def prefixed(description: Description, prefix: str) -> Description:
    """The mechanism with a prefix before all names, but for that of the base."""

    def new(name: str) -> str:
        return name if name in ("", description.base) else f"{prefix}/{name}"

    def framed(frame: Frame) -> Frame:
        return replace(frame, name=new(frame.name))

    def followed(joint: Joint) -> Joint:
        mimic = joint.mimic and replace(joint.mimic, joint=new(joint.mimic.joint))
        return replace(joint, name=new(joint.name), mimic=mimic)

    return edited(
        description, name=prefix,
        links=tuple(replace(x, name=new(x.name)) for x in description.links),
        frames=tuple(map(framed, description.frames)),
        joints=tuple(map(followed, description.joints)),
        loops=tuple(replace(x, name=new(x.name), of=framed(x.of), on=framed(x.on))
                    for x in description.loops),
        gears=tuple(replace(x, name=new(x.name), ratios={
            new(joint): ratio for joint, ratio in x.ratios.items()}) for x in description.gears),
        visuals=tuple(replace(x, link=new(x.link)) for x in description.visuals),
        actuators=tuple(replace(x, name=new(x.name), joint=new(x.joint))
                        for x in description.actuators),
        collisions=tuple(replace(x, link=new(x.link), name=new(x.name))
                         for x in description.collisions),
        pairs=tuple((new(one), new(two)) for one, two in description.pairs))


def joined(parts: Sequence[Description], name: str) -> Description:
    """All mechanisms on one base, in order: links, joints and coordinates follow each other."""
    _expect_own_names(parts)
    gravities = {part.gravity for part in parts}
    if len(gravities) > 1:
        raise ValueError(f"together: gravities {', '.join(map(str, sorted(gravities)))}, expected "
                         "one; robot.with_gravity(...) gives it")
    worlds = [part.world for part in parts if part.world is not None]
    if any(world != worlds[0] for world in worlds):
        raise ValueError("together: worlds that differ, expected one; "
                         "robot.with_contacts(..., world) gives it")
    starts = [sum(len(part.links) for part in parts[:k]) for k in range(len(parts))]
    base = base_name([x.name for part in parts for x in (*part.links, *part.frames)])

    def moved(frame: Frame, start: int) -> Frame:
        return replace(frame, link=frame.link and frame.link + start)

    def named(link: str, part: Description) -> str:
        return base if link == part.base else link

    each = list(zip(parts, starts, strict=True))
    return Description(
        name=name, gravity=parts[0].gravity, physical="ignore",
        links=tuple(x for part in parts for x in part.links),
        joints=tuple(replace(x, parent=x.parent and x.parent + start)
                     for part, start in each for x in part.joints),
        frames=tuple(moved(x, start) for part, start in each for x in part.frames),
        source="\n".join(part.source for part in parts if part.source),
        report=tuple(f"{part.name}: {line}" for part in parts for line in part.report),
        loops=tuple(replace(x, of=moved(x.of, start), on=moved(x.on, start))
                    for part, start in each for x in part.loops),
        gears=tuple(x for part in parts for x in part.gears),
        home=tuple(x for part in parts for x in _home(part)) if any(
            part.home for part in parts) else (),
        visuals=tuple(x for part in parts for x in part.visuals),
        actuators=tuple(x for part in parts for x in part.actuators),
        collisions=tuple(replace(x, link=named(x.link, part))
                         for part in parts for x in part.collisions),
        world=worlds[0] if worlds else None,
        pairs=tuple((named(one, part), named(two, part))
                    for part in parts for one, two in part.pairs),
        surroundings=next((x.surroundings for x in parts if x.surroundings is not None), None))


def _home(part: Description) -> Sequence[float]:
    return part.home or [x for joint in part.joints for x in joint.type.space.neutral]


def _expect_own_names(parts: Sequence[Description]) -> None:
    for what in NAMED:
        owners: dict[str, int] = {}
        for number, part in enumerate(parts):
            for entry in getattr(part, what):
                other = owners.setdefault(entry.name, number)
                if other != number:
                    raise ValueError(
                        f"together: {what[:-1]} {entry.name!r} is in {parts[other].name!r} and "
                        f"in {part.name!r}, expected names of their own; "
                        "nlink.together({'left': one, 'right': other}) makes such names")


def free_body(name: str, mass: float, shape: SolidShape, world: World | None) -> Description:
    """A homogeneous body of a shape, which moves freely."""
    if not isinstance(shape, SolidShape):
        raise TypeError(f"shape: a {type(shape).__name__}, expected a shape such as "
                        "nlink.Box((0.2, 0.1, 0.1))")
    own = moments(shape, mass)
    tensor = shape.pose.R @ [[own[0], 0, 0], [0, own[1], 0], [0, 0, own[2]]] @ shape.pose.R.T
    link = Link(name, mass, shape.pose.origin, tuple(map(tuple, tensor.tolist())))
    return Description(name, (link,), (Joint(f"{name}_free", Free()),), world=world,
                       collisions=(Collision(name, shape),))
