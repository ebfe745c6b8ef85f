"""What links look like, in TOML files: shapes that are read, written and refused."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.formats.dh import parse_toml
from nlink.formats.toml_writer import to_toml

ROW = '[[link]]\njoint = "revolute"\na = 1.0\nmass = 1.0\ncom = [-0.5, 0, 0]\ninertia = [0, 1, 1]\n'


def drawn(text: str):
    return parse_toml(f"{ROW}\n[[visual]]\n{text}").visuals


@pytest.mark.parametrize("name", ["panda", "ur5", "puma560"])
def test_bundled_arms_have_shapes_that_files_keep(name):
    visuals = nlink.load(name).description.visuals
    assert len({each.link for each in visuals}) == nlink.load(name).n + 1  # the base, too
    assert parse_toml(to_toml(nlink.load(name).description)).visuals == visuals


def test_an_axis_between_two_points_is_a_place_and_a_length():
    [tube] = drawn('link = "link1"\nshape = "capsule"\nfrom = [0, 1, 0]\nto = [0, 1, 2]\n'
                   'radius = 0.1\ncolour = [1, 0.5, 0]')
    assert tube.size == (0.1, 2.0)
    assert tube.colour == (1.0, 0.5, 0.0, 1.0)
    ends = [np.array(tube.pose.rotation) @ [0, 0, z] + tube.pose.origin for z in (-1.0, 1.0)]
    np.testing.assert_allclose(ends, [[0, 1, 0], [0, 1, 2]], atol=1e-15)


@pytest.mark.parametrize(("text", "words"), [
    ('shape = "cone"\nsize = [1]', "shape 'cone', expected one of box"),
    ('shape = "mesh"\nsize = [1]', "shape 'mesh', expected one of box"),
    ('shape = "sphere"', "size: None, expected 1 finite numbers"),
    ('shape = "sphere"\nsize = [nan]', "expected 1 finite numbers"),
    ('shape = "sphere"\nsize = [-1.0]', "expected positive numbers"),
    ('shape = "box"\nfrom = [0, 0, 0]\nto = [0, 0, 1]\nradius = 1', "expected a cylinder"),
    ('shape = "capsule"\nfrom = [0, 0, 0]\nto = [0, 0, 0]\nradius = 1', "expected another point"),
    ('shape = "sphere"\nsize = [1]\ncolour = [2, 0, 0]', "colour: .* from 0 to 1"),
    ('shape = "sphere"\nsize = [1]\nlink = "hand"', "link 'hand' does not exist"),
    ('shape = "sphere"\nsize = [1]\nfile = "/etc/passwd"', "unknown key 'file'")])
def test_what_cannot_be_drawn_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        drawn(text)
