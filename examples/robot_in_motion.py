"""A robot and its motion in one picture: a Panda draws a line and an arc, with ghosts on the way.

    python examples/robot_in_motion.py motion.png
"""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np

import nlink
from nlink.simulation import ComputedTorque
from nlink.viewer.pictures import Camera, picture
from nlink.viewer.scene import Scene

mpl.use("Agg")
from matplotlib import pyplot as plt

WIDTH, HEIGHT = 960, 600


def main(path: str = "motion.png") -> None:
    robot = nlink.load("panda")
    ready = [0.0, -0.4, 0.0, -2.2, 0.0, 1.8, 0.8]
    start = nlink.ik(robot, [0.45, -0.25, 0.35], tasks=[nlink.AlignAxis([0, 0, -1])], q0=ready).q
    first = robot.pose(start)
    corner, end = first.copy(), first.copy()
    corner[:3, 3] += [0.0, 0.45, 0.0]
    end[:3, 3] += [0.0, 0.0, 0.2]
    way = nlink.reach(robot, [first, corner, nlink.Arc(first[:3, 3] + [0.1, 0.25, 0.2], end)],
                      q0=start, acceleration=8.0)
    run = nlink.simulate(robot, way.q[0], t=way.duration, every=way.duration / 300,
                         tau=ComputedTorque(robot, way, kp=400.0, kd=40.0))

    scene = Scene.of(robot)
    places = np.array([scene.places(q) for q in run.q])
    camera = Camera.around(scene, scene.corners(places), WIDTH / HEIGHT)
    image = picture(scene, places[60], width=WIDTH, height=HEIGHT, camera=camera,
                    ghosts=places[[0, 140, 220, 300]])
    x, y, _ = camera.project(run.path(), WIDTH, HEIGHT).T

    figure = plt.figure(figsize=(WIDTH / 100, HEIGHT / 100))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(image, extent=(0, WIDTH, HEIGHT, 0))
    axes.plot(x, y, color="#d55e00", linewidth=2.5, solid_capstyle="round")
    axes.axis("off")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main(*sys.argv[1:])
