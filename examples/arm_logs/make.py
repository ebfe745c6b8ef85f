"""Logs of an arm as drives write them: the data of docs/tutorials/identification.md.

    python examples/arm_logs/make.py [DIRECTORY]

A UR5 whose masses, inertias and friction differ from those of the bundled robot follows three
motions under PD control, and a fourth with 2.8 kg in its hand. Of each, a file has what a real log
has: positions and currents of the motors, of which the fifth also turns the sixth joint, at
250 Hz with jitter; some rows are missing, positions are those of 19-bit encoders, currents are
quantized and come 3 ms late, friction depends on the direction and falls while the arm warms up,
and the arm stands still at both ends. The truth is in a file of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import tomli_w

import nlink

RATE, STEP = 250.0, 4e-4
MOTION, REST = 20.0, 1.0
DELAY, DROPS, JITTER = 0.003, 0.01, 4e-4
ENCODER = 2 * np.pi / 2**19
"""Of a joint's turn."""
RATIOS = np.array([101.0, 101.0, 101.0, 54.0, 54.0, 54.0])
COUPLING = -54.0
"""Turns of the sixth motor for each turn of the fifth joint."""
GAINS = np.array([0.125, 0.125, 0.125, 0.092, 0.092, 0.092])
"""N m per A at the motors."""
ROTORS = np.array([0.9, 0.9, 0.6, 0.12, 0.12, 0.1])
"""As the joints feel them, kg m^2."""
C = np.eye(6)
C[5, 4] = COUPLING / RATIOS[5]
"""Turns of the motors behind their gears for those of the joints."""
RESOLUTION, NOISE = 0.01, 0.02
"""A."""
PAYLOAD, CENTRE = 2.8, (0.01, 0.02, 0.06)
COLD, WARMING = 0.06, 60.0
"""Dry and viscous friction start that much higher, and end that much lower; seconds."""
KP = np.array([9000.0, 9000.0, 7000.0, 1200.0, 1200.0, 800.0])
KD = np.array([300.0, 300.0, 200.0, 30.0, 30.0, 20.0])
SIGN_WIDTH = 0.005
Array = np.ndarray


def true_robot(nominal: nlink.Robot, rng: np.random.Generator) -> nlink.Robot:
    """Masses within 12 %, mass centres within 1.5 cm."""
    links = []
    for link in nominal.description.links:
        scale = 1 + rng.uniform(-0.12, 0.12)
        x, y, z = (np.array(link.com) + rng.uniform(-0.015, 0.015, 3)).tolist()
        inertia = tuple(map(tuple, (np.array(link.inertia) * scale).tolist()))
        links.append(replace(link, mass=link.mass * scale, com=(x, y, z), inertia=inertia))
    return nlink.Robot(replace(nominal.description, links=tuple(links)))


def friction_numbers(rng: np.random.Generator) -> dict[str, Array]:
    """Of each joint: dry, viscous, Stribeck's excess and rate, and an offset."""
    dry = np.array([7.0, 8.0, 5.0, 1.4, 1.2, 1.0]) * rng.uniform(0.8, 1.2, 6)
    return {"dry": dry, "viscous": dry * rng.uniform(0.6, 1.0, 6), "excess": 0.25 * dry,
            "stribeck": rng.uniform(0.08, 0.15, 6), "offset": 0.08 * dry * rng.choice([-1, 1], 6)}


def friction(numbers: dict[str, Array], qd: Array, warmth: float) -> Array:
    """Torques at rates, those of the sixth motor at its own; `warmth` is 1 on average."""
    fall = numbers["excess"] * np.exp(-((qd / numbers["stribeck"]) ** 2))
    return (warmth * ((numbers["dry"] + fall) * np.tanh(qd / SIGN_WIDTH) + numbers["viscous"] * qd)
            + numbers["offset"])


def drive(robot: nlink.Robot, model: nlink.Robot, path: Callable[[Array], tuple[Array, ...]],
          numbers: dict[str, Array], begin: float) -> tuple[Array, Array, Array]:
    """Times, positions and torques of an arm under PD control with the model's torques ahead."""
    t = np.arange(0.0, MOTION + 2 * REST, STEP)
    wanted = path(np.clip(t - REST, 0.0, MOTION))
    ahead = model.inverse_dynamics(*wanted)
    q, qd = wanted[0][0].copy(), np.zeros(robot.n)
    positions, torques = np.empty((len(t), robot.n)), np.empty((len(t), robot.n))
    for k, now in enumerate(t):
        tau = ahead[k] + KP * (wanted[0][k] - q) + KD * (wanted[1][k] - qd)
        warmth = 1 + COLD * (2 * np.exp(-(begin + now) / WARMING) - 1)
        positions[k], torques[k] = q, tau
        tau = tau - C.T @ friction(numbers, C @ qd, warmth)
        bias = robot.inverse_dynamics(q, qd, np.zeros(robot.n))
        qdd = np.linalg.solve(robot.mass_matrix(q) + C.T @ np.diag(ROTORS) @ C, tau - bias)
        qd = qd + STEP * qdd
        q = q + STEP * qd
    return t, positions, torques


def logged(t: Array, q: Array, tau: Array, A: Array, rng: np.random.Generator) -> dict[str, Array]:
    """What the drives write of it."""
    stamps = np.arange(0.01, t[-1] - 0.01, 1 / RATE)
    stamps = stamps + rng.uniform(-JITTER, JITTER, len(stamps))
    stamps = stamps[rng.random(len(stamps)) > DROPS]
    seen = np.column_stack([np.interp(stamps, t, x) for x in q.T])
    felt = np.column_stack([np.interp(stamps - DELAY, t, x) for x in tau.T])
    current = felt @ np.linalg.inv(A) / GAINS + NOISE * rng.normal(size=felt.shape)
    unit = ENCODER * np.abs(np.diag(A))
    return {"t": stamps.round(6), "motor_position": np.round(seen @ A.T / unit) * unit,
            "motor_current": np.round(current / RESOLUTION) * RESOLUTION}


def main(directory: Path) -> None:
    """Write four logs and the truth."""
    rng = np.random.default_rng(5)
    nominal = nlink.load("ur5")
    true, numbers = true_robot(nominal, rng), friction_numbers(rng)
    A = np.diag(RATIOS) @ C
    limits = {"lower": -2.2, "upper": 2.2, "velocity": 1.8, "acceleration": 5.0, "effort": 1e3}
    directory.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(("run1", "run2", "run3", "loaded")):
        robot = true.with_payload(PAYLOAD, CENTRE) if name == "loaded" else true
        path = nlink.excite(nominal, MOTION, seed=k, limits=limits)
        t, q, tau = drive(robot, nominal, path.at, numbers, k * (MOTION + 2 * REST))
        np.savez_compressed(directory / f"{name}.npz", **logged(t, q, tau, A, rng))
    truth = {
        "transmission": A.tolist(), "gains": GAINS.tolist(), "delay": DELAY,
        "payload": {"mass": PAYLOAD, "com": list(CENTRE)},
        "friction": {name: x.tolist() for name, x in numbers.items()},
        "rotors": ROTORS.tolist(), "mass": [link.mass for link in true.links],
    }
    (directory / "truth.toml").write_text(tomli_w.dumps(truth), "utf-8")
    true.to_toml(directory / "true_arm.toml")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
