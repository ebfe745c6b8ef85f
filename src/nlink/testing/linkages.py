"""Mechanisms with as many loops as one likes: ladders of four-bars, nets, rings, and walkers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nlink.model.constraints import Ball, Pin
from nlink.model.description import Description, Frame, Joint, Link, Loop, Vector3
from nlink.model.joints import Free, JointType, Revolute, Spherical
from nlink.model.pose import Mount, Pose

GRAVITY = 9.81
ROD = ((0.0, 0.0, 0.0), (0.0, 1 / 12, 0.0), (0.0, 0.0, 1 / 12))
"""The inertia of a thin rod of 1 kg and 1 m along x, about its middle."""


def rod(name: str, mass: float = 1.0, length: float = 1.0) -> Link:
    """A thin rod from its joint along x."""
    inertia = tuple(tuple(mass * length**2 * x for x in row) for row in ROD)
    return Link(name, mass, (length / 2, 0.0, 0.0), inertia)  # type: ignore[arg-type]


def ladder(loops: int, theta: float = 1.0, masses: Sequence[float] = ()) -> Description:
    """N four-bars side by side: rods hinged to the ground 1 m apart, couplers between their tips.

    All rods are 1 m long and thin, so they stay parallel. `theta` is their angle to the horizontal
    at home, `masses` are those of the couplers, 1 kg if not given. For N = 40 this is problem A02
    of the IFToMM library of multibody benchmarks.

    >>> ladder(2).home
    (1.0, -1.0, 1.0, 0.0, 1.0)
    """
    coupler = tuple(masses) or (1.0,) * loops
    links, joints = [rod("rod0")], [Joint("rod0", Revolute())]
    closed, home = [], [theta]
    at = Pose.shift(x=1.0)
    for k in range(1, loops + 1):
        before = len(links) - 1 if k > 1 else 1  # the coupler before, or the first rod
        links += [rod(f"coupler{k}", coupler[k - 1]), rod(f"rod{k}")]
        joints += [Joint(f"coupler{k}", Revolute(), before, Mount(at)),
                   Joint(f"rod{k}", Revolute(), 0, Mount(Pose.shift(x=float(k))))]
        closed.append(Loop(f"pin{k}", Pin(), Frame(f"pin{k}.of", len(links) - 1, at),
                           Frame(f"pin{k}.on", len(links), at)))
        home += [-theta if k == 1 else 0.0, theta]
    return Description(f"ladder({loops})", tuple(links), tuple(joints),
                       gravity=(0.0, -GRAVITY, 0.0), loops=tuple(closed), home=tuple(home))


def ladder_rates(loops: int, rate: float) -> list[float]:
    """The joint rates of a ladder whose rods turn with a rate."""
    return [rate] + [x for k in range(loops) for x in (-rate if k == 0 else 0.0, rate)]


def ladder_acceleration(loops: int, theta: float) -> float:
    """The acceleration of every rod: that of a physical pendulum.

    Couplers do not turn, so with N of them and N + 1 rods the moment of inertia is
    (N + 1) / 3 + N, and the weight acts as ((N + 1) / 2 + N) kg at 1 m.
    """
    rods = loops + 1
    return -GRAVITY * math.cos(theta) * (rods / 2 + loops) / (rods / 3 + loops)


def net(rows: int, columns: int) -> Description:
    """Bodies in a grid, each held to its neighbours by spherical joints, hanging from a corner.

    The tree is the first row and all columns; every other bond closes a loop.

    >>> len(net(4, 4).loops), len(net(4, 4).links)
    (9, 16)
    """
    links, joints, loops = [], [], []

    def number(r: int, c: int) -> int:
        return 1 + c * rows + r  # depth first, as Pinocchio wants it

    for c in range(columns):
        for r in range(rows):
            x = 0.03 * ((3 * r + 5 * c) % 7)  # no two neighbours are alike
            inertia = ((0.03 + x, 0.0, 0.0), (0.0, 0.04, 0.0), (0.0, 0.0, 0.05 + x))
            links.append(Link(f"body{r}.{c}", 1.0 + x, (0.5, -0.5, 0.1 - x), inertia))
            up = number(r - 1, c) if r else number(r, c - 1) if c else 0
            place = Pose.shift(y=-1.0) if r else Pose.shift(x=1.0) if c else Pose()
            joints.append(Joint(f"body{r}.{c}", Spherical(), up, Mount(place)))
            if r and c:
                name = f"bond{r}.{c}"
                loops.append(Loop(name, Ball(), Frame(f"{name}.of", number(r, c)),
                                  Frame(f"{name}.on", number(r, c - 1), Pose.shift(x=1.0))))
    return Description(f"net({rows}, {columns})", tuple(links), tuple(joints),
                       loops=tuple(loops))


def ring(bodies: int) -> Description:
    """A regular polygon of equal rods of 1 m, the last of which is held at the base again by a
    spherical joint: it lies in the plane of its hinges."""
    corner = 2 * math.pi / (bodies + 1)
    turned = Pose.shift(x=1.0) @ Pose.turn("z", corner)
    joints = tuple(Joint(f"rod{k}", Revolute(), k, Mount(turned if k else Pose()))
                   for k in range(bodies))
    # the side that is missing ends at the origin
    angle = bodies * corner
    end = Frame("end.on", 0, Pose.shift(x=-math.cos(angle), y=-math.sin(angle)))
    loop = Loop("end", Ball(), Frame("end.of", bodies, Pose.shift(x=1.0)), end)
    return Description(f"ring({bodies})", tuple(rod(f"rod{k}") for k in range(bodies)), joints,
                       gravity=(0.0, -GRAVITY, 0.0), loops=(loop,))


def walker(legs: int) -> Description:
    """A free trunk with legs, in each of which two four-bars carry the shank and the foot."""
    links, joints, loops = [], [], list[Loop]()

    def add(name: str, parent: int, at: Vector3, kind: JointType) -> int:
        about = ((0.02, 0.0, 0.0), (0.0, 0.03, 0.0), (0.0, 0.0, 0.04))
        links.append(Link(name, 1.0, (0.3, 0.1, 0.0), about))
        joints.append(Joint(name, kind, parent, Mount(Pose.shift(*at))))
        return len(links)

    def hold(name: str, of: int, at: Vector3, on: int, there: Vector3, *, pin: bool) -> None:
        loops.append(Loop(name, Pin() if pin else Ball(),
                          Frame(f"{name}.of", of, Pose.shift(*at)),
                          Frame(f"{name}.on", on, Pose.shift(*there))))

    trunk = add("trunk", 0, (0.0, 0.0, 0.0), Free())
    for k in range(1, legs + 1):
        hip = add(f"hip{k}", trunk, (0.0, 0.0, float(k)), Revolute((1, 0, 0)))
        thigh = add(f"thigh{k}", hip, (0.0, 0.0, 0.1), Revolute())
        crank = add(f"crank{k}", hip, (0.0, 1.0, 0.1), Revolute())
        shank = add(f"shank{k}", thigh, (1.0, 0.0, 0.0), Revolute())
        hold(f"knee{k}", crank, (1.0, 0.0, 0.0), shank, (0.0, 1.0, 0.0), pin=True)
        tendon = add(f"tendon{k}", shank, (0.0, 1.0, 0.0), Revolute())
        ankle = add(f"ankle{k}", shank, (0.0, 2.0, 0.0), Revolute())
        foot = add(f"foot{k}", tendon, (1.0, 0.0, 0.0), Revolute())
        hold(f"heel{k}", ankle, (1.0, 0.0, 0.0), foot, (0.0, 1.0, 0.0), pin=False)
    return Description(f"walker({legs})", tuple(links), tuple(joints), loops=tuple(loops))
