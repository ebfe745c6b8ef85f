"""The gallery of live pages on the site: `python docs/live_gallery.py DIR` writes them."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

import nlink
from nlink import Slider
from nlink.simulation import ComputedTorque, PDGravity, Sampled

READY = [0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8]
"""A pose of the Panda."""
FALL = Slider("gravity", 0, 20)


def pendulum(path: Path) -> None:
    nlink.live(nlink.load("double_pendulum"), None, [FALL, Slider("mass[link2]", 0.1, 5),
                                                     Slider("viscous", 0, 1)], path,
               q0=[0.6, 0.5], equations=True, title="Double pendulum")


def fifty_pendulums(path: Path) -> None:
    start = np.array([2.2, 0.3]) + 1e-4 * np.arange(50)[:, None]
    nlink.live(nlink.load("double_pendulum"), None, [FALL], path, q0=start,
               title="Fifty double pendulums that part")


def planar_arm(path: Path) -> None:
    arm = nlink.load("planar3")
    nlink.live(arm, PDGravity(arm, [0.6, 0.2, -0.3], 30.0, 6.0), [
        Slider("kp", 0, 3, relative=True), Slider("kd", 0, 3, relative=True),
        Slider("payload", 0, 5), FALL], path, q0=[0.3, -0.4, 0.5],
        title="Planar arm of three links [Saha]")


def two_controllers(path: Path) -> None:
    arm = nlink.load("planar3")
    goal = [0.9, -0.5, 0.4]
    nlink.live(arm, {"PD with gravity compensation": PDGravity(arm, goal, 40.0, 8.0),
                     "computed torque": ComputedTorque(arm, goal, 16.0, 8.0)},
               [Slider("payload", 0, 5)], path, q0=[0.0, 0.0, 0.0],
               title="One arm under two controllers, and a load that neither knows of")


def friction(path: Path) -> None:
    arm = nlink.load("planar3").with_friction(dry=0.8, viscous=0.1)
    nlink.live(arm, None, [Slider("dry", 0, 5), FALL], path, q0=[0.6, 0.2, -0.4],
               method="rkf45", title="Joints that stick and slip")


def panda(path: Path) -> None:
    robot = nlink.load("panda")
    law = PDGravity(robot, READY, [80, 80, 60, 60, 20, 10, 1.0], [16, 16, 12, 12, 2, 1, 0.02])
    nlink.live(robot, law, [Slider("kp", 0, 2, relative=True), Slider("payload", 0, 8)], path,
               q0=READY, limits="hold", title="Panda with limits that hold")


def puma(path: Path) -> None:
    robot = nlink.load("puma560")
    goal = [0.5, -0.6, 0.3, 0.2, 0.5, 0.0]
    nlink.live(robot, Sampled(PDGravity(robot, goal, [60, 60, 30, 4, 4, 2], [12, 12, 6, 0.4, 0.4,
                                                                             0.2]), 0.01),
               [Slider("payload", 0, 5)], path, q0=[0.0] * 6,
               title="PUMA 560 under a controller that acts every 10 ms [Koz95]")


def stanford(path: Path) -> None:
    robot = nlink.load("stanford")
    goal = [0.4, 0.3, 0.5, 0.0, 0.2, 0.0]
    nlink.live(robot, ComputedTorque(robot, goal, 16.0, 8.0), [
        Slider("kp", 0, 3, relative=True), Slider("payload", 0, 3)], path,
        q0=[0.0, 0.1, 0.3, 0.0, 0.1, 0.0], title="Stanford arm under computed torque [Saha]")


def four_bar(path: Path) -> None:
    nlink.live(nlink.load("four_bar"), None, [FALL, Slider("viscous", 0, 1)], path,
               title="Four-bar linkage: a closed chain")


def bouncing_ball(path: Path) -> None:
    link = nlink.Link("ball", mass=1.0, inertia=np.diag([4e-3] * 3))
    ball = nlink.Robot(nlink.Description("ball", (link,), (nlink.Joint("root", nlink.Free()),)))
    ball = ball.with_contacts({"ball": nlink.Sphere(0.1)}, nlink.World(friction=0.3,
                                                                      restitution=0.8))
    nlink.live(ball, None, [FALL], path, q0=[0, 0, 0.8, 1, 0, 0, 0],
               qd0=[0, 2.0, 0, 0.4, 0, 0], method="semi_implicit",
               title="A ball that bounces, slides and rolls")


PAGES = (pendulum, fifty_pendulums, planar_arm, two_controllers, friction, panda, puma, stanford,
         four_bar, bouncing_ball)


def write_gallery(directory: Path) -> list[Path]:
    """All pages, in the order of the gallery."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # no slider leads to a motion that diverges
        for page in PAGES:
            written.append(directory / f"{page.__name__.replace('_', '-')}.html")
            page(written[-1])
    return written


if __name__ == "__main__":
    print(*write_gallery(Path(sys.argv[1])), sep="\n")
