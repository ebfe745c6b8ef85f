"""Small files that ask for much work, or for files that are none of theirs."""

from __future__ import annotations

import tracemalloc

import pytest

import nlink
from nlink.formats.dh import MAX_DEPTH, MAX_ROWS, parse_toml
from nlink.formats.mjcf import parse_mjcf

DEEP = {
    "key": ".".join("a" * 20_000) + " = 1",
    "quoted key": " . ".join(['"a"'] * 20_000) + " = 1",
    "table": "[" + ".".join("a" * 20_000) + "]",
    "list": "home = " + "[" * 20_000,
    "inline table": "home = " + "{a = " * 20_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_toml_is_refused_before_it_is_parsed(name):
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"^file: .*a key of more than {MAX_DEPTH} parts"):
        parse_toml(DEEP[name], origin="file")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize("string", ['"{}"', "'{}'", '"""{}"""', "'''{}'''", '"""{}\\""""""'])
def test_dots_and_brackets_in_strings_and_comments_are_no_depth(string):
    dots = ".[{" * 100
    text = f"source = {string.format(dots)}  # {dots}\n[[link]]\nmass = 1.0\ninertia = [1, 1, 1]"
    assert parse_toml(text).source.startswith(dots)


def test_a_string_without_an_end_is_scanned_once():
    for text in ('x = """' + '\\"' * 10**5, '"""a' * 10**5, "'" * 10**5, '"\n' * 10**5):
        with pytest.raises(ValueError, match="not valid TOML"):
            parse_toml(text)


@pytest.mark.slow
def test_tables_are_bounded():
    with pytest.raises(ValueError, match=f"expected at most {MAX_ROWS} together"):
        parse_toml("[[link]]\n" * (MAX_ROWS + 1))


def mujoco(inside: str) -> str:
    return f"<mujoco>{inside}</mujoco>"


BALL = '<body name="b"><joint/><geom size=".1"/></body>'
LARGE = {
    "copies": (mujoco(f'<worldbody><replicate count="1e9">{BALL}</replicate></worldbody>'),
               "more than 20000 elements with all copies"),
    "copies of copies": (mujoco("<worldbody>" + '<replicate count="20">' * 9 + BALL
                                + "</replicate>" * 9 + "</worldbody>"),
                         "more than 20000 elements"),
    "grid": (mujoco('<worldbody><flexcomp name="f" type="grid" count="500 500 500"/></worldbody>'),
             "more than 20000 elements"),
    "many bodies": (mujoco(f"<worldbody>{'<body/>' * 20_001}</worldbody>"),
                    "more than 20000 elements"),
    "no number": (mujoco(f'<worldbody><replicate count="nan">{BALL}</replicate></worldbody>'),
                  "more than 20000 elements|MuJoCo refuses"),
    "height field": (mujoco('<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/>'
                            "</asset>"), "hfield: nrow '100000', expected at most 8192"),
    "texture": (mujoco('<default><texture width="1e6"/></default>'),
                "texture: width '1e6', expected at most 8192"),
    "keys": (mujoco('<size nkey="10000000"/>'), "size: nkey '10000000', expected at most"),
    "user data": (mujoco('<size nuser_body="1000000000"/>'), "size: nuser_body .* at most"),
    "mass": (mujoco('<worldbody><body name="b"><joint/><inertial pos="0 0 0" mass="1e300" '
                    'diaginertia="1 1 1"/></body></worldbody>'),
             r"body_mass\[1\] \('b'\) is 1e\+300, expected at most 1e\+30"),
    "placement": (mujoco(f'<worldbody><body pos="1e200 0 0">{BALL}</body></worldbody>'),
                  r"body_pos\[1\] is 1e\+200"),
    "gravity": (mujoco(f'<option gravity="0 0 -1e99"/><worldbody>{BALL}</worldbody>'), "gravity"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_mjcf_is_refused_in_one_sentence(name):
    pytest.importorskip("mujoco")
    text, message = LARGE[name]
    with pytest.raises(ValueError, match=message) as caught:
        parse_mjcf(text, origin="file")
    assert str(caught.value).startswith("file: ")
    assert "\n" not in str(caught.value)


def test_copies_within_bounds_are_made():
    pytest.importorskip("mujoco")
    text = mujoco(f'<worldbody><replicate count="3" sep="-">{BALL}</replicate></worldbody>')
    assert len(parse_mjcf(text).links) == 3


@pytest.fixture
def scene(tmp_path):
    """A directory with a part, and beside it a file that is none of its business."""
    pytest.importorskip("mujoco")
    (tmp_path / "secret.xml").write_text(mujoco(f"<worldbody>{BALL}</worldbody>"))
    home = tmp_path / "robot"
    (home / "parts").mkdir(parents=True)
    (home / "parts" / "ball.xml").write_text(mujoco(f"<worldbody>{BALL}</worldbody>"))

    def write(include: str):
        path = home / "scene.xml"
        path.write_text(mujoco(f'<include file="{include}"/>'))
        return path

    return write


def test_includes_are_read_on_request(scene, tmp_path, capsys):
    from nlink.cli import run

    path = scene("parts/ball.xml")
    with pytest.raises(ValueError, match=r"includes 'parts/ball.xml', and other files are read on "
                                         r"request only: load\(\.\.\., includes=True\)"):
        nlink.load(path)
    assert nlink.load(path, includes=True).frames == ("base", "b")
    assert nlink.load(path, includes=True, floating=False).n == 1
    assert run(["convert", str(path), str(tmp_path / "a.toml")]) == 2
    assert "nlink convert --includes" in capsys.readouterr().err
    assert run(["convert", "--includes", str(path), str(tmp_path / "a.toml")]) == 0
    assert nlink.load(tmp_path / "a.toml").n == 1


def test_includes_stay_in_their_directory(scene, tmp_path):
    link = tmp_path / "robot" / "link.xml"
    link.symlink_to(tmp_path / "secret.xml")
    for name in ("../secret.xml", str(tmp_path / "secret.xml"), "parts/../../secret.xml",
                 "link.xml"):
        with pytest.raises(ValueError, match="expected a file in the directory"):
            nlink.load(scene(name), includes=True)
    with pytest.raises(ValueError, match="which is no file in"):
        nlink.load(scene("parts"), includes=True)


@pytest.mark.parametrize(("inside", "message"), [
    ('<!DOCTYPE x [<!ENTITY a "b">]><mujoco/>', "ball.xml: refused for safety"),
    (LARGE["copies"][0], "ball.xml: more than 20000 elements"),
    ('<mujoco><include file="../../secret.xml"/></mujoco>', "expected a file in the directory"),
    ('<mujoco><include file="/etc/passwd"/></mujoco>', "expected a file in the directory"),
    ('<mujoco><asset><model name="m" file="/etc/passwd"/></asset></mujoco>',
     "expected a file in the directory")])
def test_what_is_included_is_held_to_the_same_bounds(scene, inside, message):
    path = scene("parts/ball.xml")
    (path.parent / "parts" / "ball.xml").write_text(inside)
    with pytest.raises(ValueError, match=message):
        nlink.load(path, includes=True)


def test_what_is_included_in_copies_is_counted_as_often(scene):
    path = scene("parts/ball.xml")
    path.write_text(mujoco('<worldbody><replicate count="9000"><include file="parts/ball.xml"/>'
                           "</replicate></worldbody>"))
    with pytest.raises(ValueError, match="more than 20000 elements"):
        nlink.load(path, includes=True)


def test_a_mesh_is_a_plain_file(scene):
    path = scene("parts/ball.xml")
    path.write_text(mujoco('<compiler meshdir="/dev"/><asset><mesh name="m" file="zero" '
                           'content_type="model/stl"/></asset>'))
    with pytest.raises(ValueError, match="names 'zero', expected a plain file"):
        nlink.load(path)


def test_a_site_that_shares_the_name_of_a_body_is_reported():
    pytest.importorskip("mujoco")
    text = mujoco(f'<worldbody>{BALL}<site name="b" pos="1 0 0"/></worldbody>')
    description = parse_mjcf(text)
    assert [frame.name for frame in description.frames] == ["b_2"]
    assert "site renamed, since a body has its name: 1 (b is b_2)" in description.report


def test_a_late_declaration_is_no_obstacle_for_mjcf():
    pytest.importorskip("mujoco")
    text = '\n<?xml version="1.0"?>' + mujoco(f"<worldbody>{BALL}</worldbody>")
    assert parse_mjcf(text).report[0] == "XML declaration not at the start, ignored: 1 (the file)"
