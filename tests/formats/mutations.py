"""Small valid files and ways to spoil them, for fuzzers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nlink import Description, Robot
from nlink.formats.dh import parse_toml
from nlink.formats.mjcf import parse_mjcf
from nlink.formats.urdf import parse_urdf

URDF = """<?xml version="1.0"?>
<robot name="seed">
  <link name="base"/>
  <link name="a"><inertial><origin xyz="0.1 0 -.2" rpy="0.1 0.2 1.5708"/><mass value="1.5"/>
    <inertia ixx="0.1" ixy="0.01" ixz="0" iyy="0.1" iyz="0" izz="0.05"/></inertial>
    <visual><geometry><mesh filename="package://x/y.dae"/></geometry></visual></link>
  <link name="b"><inertial><mass value="2"/><inertia ixx="1e-2" iyy="1e-2" izz="1e-2"/></inertial>
  </link>
  <link name="c"><inertial><mass value="0.3"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
  <joint name="j1" type="revolute"><parent link="base"/><child link="a"/>
    <origin xyz="0 0 1" rpy="0 -1.5708 0"/><axis xyz="0 1 1"/>
    <limit lower="-1" upper="2" effort="10" velocity="3"/><dynamics damping="0.1" friction="0.2"/>
  </joint>
  <joint name="j2" type="prismatic"><parent link="a"/><child link="b"/><axis xyz="1 0 0"/>
    <limit effort="1" velocity="1" lower="0" upper="1"/><mimic joint="j1" multiplier="2"/></joint>
  <joint name="j3" type="floating"><parent link="a"/><child link="c"/></joint>
</robot>
"""
TOML = """name = "seed"
convention = "modified"
gravity = [0.0, 0.0, -9.81]

[[link]]
name = "one"
joint = "revolute"
a = 0.5
alpha_deg = 90.0
theta = 0.1
mass = 1.5
com = [0.1, 0.0, 0.2]
inertia = [[0.1, 0.01, 0.0], [0.01, 0.1, 0.0], [0.0, 0.0, 0.1]]
friction = { viscous = 0.1, coulomb = 0.2 }
limits = { position = [-1.0, 1.0], velocity = 2.0, effort = inf }

[[link]]
name = "two"
joint = "helical"
pitch = 0.2
parent = "one"
placement = { xyz = [0.0, 0.0, 0.3], rotation = [[1, 0, 0], [0, 0, -1], [0, 1, 0]] }
mass = 0.5
inertia = [0.1, 0.1, 0.1]
armature = 0.1

[[frame]]
name = "tip"
link = "two"
xyz = [0.0, 0.1, 0.0]
"""
MJCF = """<mujoco model="seed"><compiler angle="radian" autolimits="true"/>
<option gravity="0 0 -9.81" timestep="0.002"/>
<default><joint damping="0.1"/><geom density="500"/></default>
<asset><hfield name="h" nrow="4" ncol="4" size="1 1 1 1"/></asset>
<worldbody><geom type="hfield" hfield="h"/>
  <body name="a" pos="0 0 1"><freejoint name="f"/><geom size=".1 .2 .3" type="box"/>
    <body name="b" pos=".1 .2 .3" euler="1 2 3">
      <joint name="j1" axis="1 2 3" pos=".1 0 .2" ref=".3" range="-1 1" armature=".2"/>
      <joint name="s" type="slide" axis="0 1 1"/>
      <inertial pos="0 0 .1" mass="1.5" diaginertia="0.1 0.1 0.05"/>
      <body name="c" pos=".4 0 0"><joint type="ball" stiffness="1"/>
        <geom type="capsule" size=".05 .3"/><site name="tip" pos="0 0 .3"/></body></body>
    <replicate count="2" offset=".1 0 0"><body><geom size=".1"/></body></replicate></body>
</worldbody><equality><connect name="e" body1="c" body2="a" anchor="0 0 0"/></equality>
<actuator><motor name="m" joint="j1"/></actuator><sensor><jointpos joint="j1"/></sensor></mujoco>
"""
PIECES = (
    "", " ", "0", "-1", "1e999", "-1e308", "1e308", "1e-320", "nan", "inf", "-inf", "1_0", "0x1p3",
    "٣", "a", "b", "base", "tip", "one", "j1", "\u202e", "\U0001f916", "é", "\x00", "\\", '"', "'",
    "<", ">", "/>", "&amp;", "&bomb;", "<!--", "]]>", "<![CDATA[x]]>",
    '<!DOCTYPE r [<!ENTITY b "b">]>',
    "<link/>", '<link name="a"/>', '<joint name="j1" type="fixed"/>', "<robot>", "</robot>",
    '<include file="/etc/passwd"/>', '<replicate count="1e9">', "hinge", "slide", "mesh", "1e6",
    "planar", "continuous", "floating", "fixed", "universal", "spherical", "free", "ball",
    "1 2", "1 2 3 4", "[", "]", "{", "}", "=", "[[link]]", "true", "1979-05-27", "\n", "\r\n",
    "x" * 500, "<a>" * 200, "[" * 300, "9" * 400, "-0.0", "0 0 0", "[0, 0, 0]",
)
_TOKEN = re.compile(r'"[^"\n]*"|<[^>]*>|[\w.+-]+')

Edit = tuple[int, int, int]


def mutate(seed: str, edits: Sequence[Edit]) -> str:
    """The text after some edits: at a token or between two, replace, insert, drop or copy."""
    text = seed
    for what, where, piece in edits:
        tokens = [match.span() for match in _TOKEN.finditer(text)] or [(0, len(text))]
        start, end = tokens[where % len(tokens)]
        new = PIECES[piece % len(PIECES)]
        if what % 6 == 0:
            text = text[:start] + new + text[end:]
        elif what % 6 == 1 and text[start:start + 1] == '"':
            text = f'{text[:start]}"{new}"{text[end:]}'
        elif what % 6 == 2:
            text = text[:start] + text[end:]
        elif what % 6 == 3:
            text = text[:end] + text[start:end] + text[end:]
        elif what % 6 == 4:
            other = tokens[piece % len(tokens)]
            text = text[:start] + text[slice(*other)] + text[end:]
        else:
            text = text[:start] + new + text[start:]
    return text


def accept(read: str, text: str) -> Description | None:
    """A valid robot, or None after a clear refusal; whatever else is raised goes on."""
    parse = {"urdf": parse_urdf, "toml": parse_toml, "mjcf": parse_mjcf}[read]
    try:
        description = parse(text, origin="file", physical="ignore")
    except ValueError as error:
        message = str(error)
        assert message.startswith("file: "), message
        assert "\n" not in message, message
        assert len(message) < 2000, message
        return None
    robot = Robot(description)
    assert len(robot.neutral) == robot.nq
    return description
