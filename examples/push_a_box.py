"""An arm pushes a crate across a table: friction under it, a round hand against its side.

    python examples/push_a_box.py push-a-box.png
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

WIDTH, HEIGHT = 960, 640
EDGE, MASS, FRICTION = 0.16, 1.0, 0.4


def scene_of_arm_and_crate() -> nlink.Robot:
    """A Panda with a ball as its hand, and a crate on four small feet, on the ground."""
    hand = nlink.Sphere(0.05, pairs_only=True, friction=0.3)
    arm = nlink.load("panda")
    arm = arm.with_contacts({arm.links[-1].name: {"hand": hand}}, nlink.World(friction=FRICTION))
    box = nlink.Box((EDGE, EDGE, EDGE), pairs_only=True)
    feet = {f"foot{k}": nlink.Sphere(1e-3, pose=nlink.Pose(origin=(x, y, 1e-3 - EDGE / 2)))
            for k, (x, y) in enumerate(np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)]) * EDGE / 2.2)}
    crate = nlink.free_body("crate", MASS, box, nlink.World(friction=FRICTION))
    crate = crate.with_contacts({"crate": {"side": box, **feet}})
    return nlink.together(arm, crate).with_contacts(pairs=[("hand", "side")])


def main(path: str = "push-a-box.png") -> None:
    arm, robot = nlink.load("panda"), scene_of_arm_and_crate()
    ready = [0.0, 0.2, 0.0, -2.3, 0.0, 2.5, 0.8]
    start = nlink.ik(arm, [0.38, 0.03, 0.09], tasks=[nlink.AlignAxis([0, 0, -1])], q0=ready).q
    first = arm.pose(start)
    end = first.copy()
    end[:3, 3] += [0.3, 0.0, 0.0]
    way = nlink.reach(arm, [first, end], q0=start, acceleration=0.6)
    follow = ComputedTorque(arm, way, kp=400.0, kd=40.0)

    def push(t, q, qd):
        return np.array([*follow(t, q[:arm.n], qd[:arm.n]), *np.zeros(6)])

    q0 = [*start, 0.38 + 0.05 + EDGE / 2 + 0.03, 0.0, EDGE / 2, 1, 0, 0, 0]
    run = nlink.simulate(robot, q0, t=way.duration + 0.3, tau=push, method="semi_implicit",
                         step=1e-3, every=0.01)
    figure, (seen, told) = plt.subplots(2, 1, figsize=(9.6, 9.2), height_ratios=(2.6, 1))
    scene = Scene.of(robot)
    places = np.array([scene.places(q) for q in run.q])
    camera = Camera.around(scene, scene.corners(places), WIDTH / HEIGHT)
    seen.imshow(picture(scene, places[-1], width=WIDTH, height=HEIGHT, camera=camera,
                        ghosts=places[[0, len(places) // 2]]))
    seen.axis("off")
    hand = np.linalg.norm(run.contacts["hand-side"].force, axis=-1)
    ground = sum(run.contacts[f"foot{k}"].force for k in range(4))
    told.plot(run.t, hand, label="hand on crate")
    told.plot(run.t, np.linalg.norm(ground[:, :2], axis=1), label="friction of the ground")
    told.axhline(FRICTION * MASS * 9.81, color="0.6", linewidth=1, linestyle="--",
                 label="friction coefficient times weight")
    told.set(xlabel="time, s", ylabel="force, N")
    told.legend(frameon=False)
    told.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    moved, turn = run.q[-1, 7:9] - run.q[0, 7:9], 2 * np.arctan2(run.q[-1, 13], run.q[-1, 10])
    print(f"the crate moved by {moved.round(3)} m and turned by {np.degrees(turn):.1f} degrees")


if __name__ == "__main__":
    main(*sys.argv[1:])
