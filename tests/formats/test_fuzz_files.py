"""Spoiled files: a clear refusal or a valid robot, never anything else."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import MJCF, TOML, URDF, accept, mutate

from nlink.formats.files import MAX_BYTES, read_text, write_text
from nlink.formats.safe_xml import MAX_DEPTH, MAX_ELEMENTS
from nlink.formats.urdf import parse_urdf

FILES = {"urdf": 1000, "toml": 1000, "mjcf": 500}
"""Of each kind in the slow part: about twenty seconds together."""
EDITS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 400), st.integers(0, 400)),
                 min_size=1, max_size=3)
SEEDS = {"urdf": URDF, "toml": TOML, "mjcf": MJCF}


@pytest.fixture(autouse=True)
def _elsewhere(request, tmp_path_factory, monkeypatch):
    """MuJoCo keeps a log of its warnings in the working directory."""
    if "kind" in request.fixturenames and request.getfixturevalue("kind") == "mjcf":
        pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path_factory.mktemp("log"))


@pytest.mark.parametrize("kind", SEEDS)
def test_seeds_are_valid(kind):
    assert accept(kind, SEEDS[kind]) is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEEDS)
@given(edits=EDITS)
@settings(max_examples=300)
def test_spoiled_files_are_refused_or_valid(kind, edits):
    accept(kind, mutate(SEEDS[kind], edits))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEEDS)
def test_thousands_of_spoiled_files(kind):
    @given(edits=EDITS)
    @settings(max_examples=FILES[kind])
    def refused_or_valid(edits):
        accept(kind, mutate(SEEDS[kind], edits))

    refused_or_valid()


@pytest.mark.slow
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda b: b.decode("latin-1")))
def test_any_text_is_refused(text):
    for kind in ("urdf", "toml"):
        assert accept(kind, text) is None


def link(name: str, inside: str = "") -> str:
    return f'<link name="{name}">{inside}</link>'


def joint(name: str, parent: str, child: str, type: str = "fixed", inside: str = "") -> str:
    return (f'<joint name="{name}" type="{type}"><parent link="{parent}"/>'
            f'<child link="{child}"/>{inside}</joint>')


def robot(*elements: str) -> str:
    return f'<robot name="r">{"".join(elements)}</robot>'


def inertial(mass: str = "1", ixx: str = "1") -> str:
    return (f'<inertial><mass value="{mass}"/>'
            f'<inertia ixx="{ixx}" iyy="1" izz="1"/></inertial>')


BOMB = ('<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa">'
        + "".join(f'<!ENTITY {x} "{f"&{y};" * 10}">' for x, y in zip("bcdefghi", "abcdefgh",
                                                                    strict=True))
        + "]>" + robot(link("&i;")))
REFUSED = {
    "XML bomb": (BOMB, "refused for safety"),
    "external entity": ('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
                        + robot(link("&x;")), "refused for safety"),
    "external document type": ('<!DOCTYPE r SYSTEM "http://localhost/x.dtd">' + robot(link("a")),
                               "refused for safety"),
    "deep nesting": ("<robot>" + "<a>" * 200_000, f"more than {MAX_DEPTH} deep"),
    "many elements": (robot("<a/>" * (MAX_ELEMENTS + 1)), "more than 500000 elements"),
    "not XML": ("name = 1", "not valid XML"),
    "truncated": (URDF[:400], "not valid XML"),
    "other root": ("<sdf/>", "root element <sdf>, expected <robot>"),
    "xacro": ('<robot name="r" xmlns:xacro="http://ros.org/wiki/xacro"><xacro:x/></robot>',
              "is a xacro file, .*: expand it first"),
    "mimic of itself": (robot(link("a"), link("b"), joint(
        "j", "a", "b", "continuous", '<mimic joint="j"/>')), "joint 'j': mimics itself"),
    "mimics in a circle": (robot(
        link("a"), link("b"), link("c"),
        joint("j", "a", "b", "continuous", '<mimic joint="k"/>'),
        joint("k", "b", "c", "continuous", '<mimic joint="j"/>')),
        "joint 'j': mimics itself, through others"),
    "no links": (robot(), "no links"),
    "two roots": (robot(link("a"), link("b")), r"2 root links \('a', 'b'\)"),
    "only a cycle": (robot(link("a"), link("b"), joint("i", "a", "b"), joint("j", "b", "a")),
                     "0 root links"),
    "a tree and a cycle": (robot(link("r"), link("a"), link("b"), joint("i", "a", "b"),
                                 joint("j", "b", "a")), "link 'a': in a cycle"),
    "own parent": (robot(link("r"), link("a"), joint("j", "a", "a")), "in a cycle"),
    "two parents": (robot(link("a"), link("b"), link("c"), joint("i", "a", "c"),
                          joint("j", "b", "c")), "link 'c': hangs on two joints, 'i' and 'j'"),
    "same link twice": (robot(link("a"), link("a")), "link 'a': the name is used twice"),
    "same joint twice": (robot(link("a"), link("b"), link("c"), joint("j", "a", "b"),
                               joint("j", "a", "c")), "joint 'j': the name is used twice"),
    "unknown link": (robot(link("a"), joint("j", "a", "x")), "child link 'x' does not exist"),
    "link without name": (robot("<link/>"), "link: no attribute 'name'"),
    "joint without type": (robot(link("a"), '<joint name="j"/>'), "joint 'j': no attribute 'type'"),
    "unknown type": (robot(link("a"), '<joint name="j" type="ball"/>'), "type 'ball', expected"),
    "joint without parent": (robot(link("a"), '<joint name="j" type="fixed"/>'),
                             "joint 'j': no element <parent>"),
    "inertial without inertia": (robot(link("a", '<inertial><mass value="1"/></inertial>')),
                                 "inertial: no element <inertia>"),
    "two parents of a joint": (robot(link("a"), link("b"), joint(
        "j", "a", "b", inside='<parent link="b"/>')), "joint 'j': more than one <parent>"),
    "word for a number": (robot(link("a", inertial("heavy"))),
                          "link 'a': inertial: mass: value 'heavy', expected a number"),
    "not a number": (robot(link("a", inertial("nan"))), "value 'nan', expected a number"),
    "infinite": (robot(link("a", inertial("inf"))), "value 'inf', expected a number"),
    "overflowing": (robot(link("a", inertial("1e999"))), "value inf, expected at most 1e"),
    "huge": (robot(link("a", inertial(ixx="1e40"))), "ixx 1e.40, expected at most 1e"),
    "negative mass": (robot(link("a", inertial("-1"))), "link 'a': mass -1.0, expected"),
    "digits of other scripts": (robot(link("a", inertial("٣"))), "expected a number"),
    "Python's digit groups": (robot(link("a", inertial("1_0"))), "expected a number"),
    "two numbers of three": (robot(link("a"), link("b"), joint(
        "j", "a", "b", "revolute", '<origin xyz="1 2"/>')), "xyz has 2 numbers, expected 3"),
    "axis without direction": (robot(link("a"), link("b"), joint(
        "j", "a", "b", "revolute", '<axis xyz="0 0 0"/>')), "joint 'j': axis: .* has no direction"),
}


LIMIT = '<limit lower="1" upper="-2" effort="1" velocity="1"/>'
REPAIRED = {
    "two inertials": (robot(link("a", inertial() + inertial("3"))),
                      "<inertial> more than once, the first read: 1 (a)",
                      lambda d: d.links[0].mass == 1.0),
    "no mass": (robot(link("a", "<inertial/>")),
                "<inertial> without <mass>, read as massless: 1 (a)",
                lambda d: d.links[0].mass == 0.0),
    "two axes": (robot(link("a"), link("b", inertial()), joint(
        "j", "a", "b", "continuous", '<axis xyz="0 1 0"/><axis xyz="0 0 1"/>')),
        "<axis> more than once, the first read: 1 (j)",
        lambda d: d.joints[1].type.axis == (0.0, 1.0, 0.0)),
    "limits in reverse": (robot(link("a"), link("b", inertial()), joint(
        "j", "a", "b", "revolute", LIMIT)), "lower limit above the upper, exchanged: 1 (j)",
        lambda d: d.joints[1].limits.position == (-2.0, 1.0)),
    "declaration after blanks": ('\n <?xml version="1.0"?>' + robot(link("a")),
                                 "XML declaration not at the start, ignored: 1 (the file)",
                                 lambda d: d.name == "r"),
    "declaration after comments": ('<!-- a -->\n<!-- <b> -->\n<?xml version="1.0"?>'
                                   + robot(link("a")),
                                   "XML declaration not at the start, ignored: 1 (the file)",
                                   lambda d: d.name == "r"),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_what_has_one_sensible_meaning_is_read_and_reported(name):
    """As urdfdom and others read it; `physical="error"` stays strict."""
    text, line, holds = REPAIRED[name]
    description = parse_urdf(text)
    assert line in description.report
    assert holds(description)
    with pytest.raises(ValueError, match=r"^bad\.urdf: .*which physical='error' refuses$"):
        parse_urdf(text, origin="bad.urdf", physical="error")


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name):
    text, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as caught:
        parse_urdf(text, origin="bad.urdf")
    assert str(caught.value).startswith("bad.urdf: ")
    assert "\n" not in str(caught.value)


def test_a_mimic_of_no_joint_is_reported():
    text = robot(link("a"), link("b", inertial()),
                 joint("j", "a", "b", "continuous", '<mimic joint="k"/>'))
    assert "mimic of a joint that does not exist: 1 (j of k)" in parse_urdf(text).report


def test_bombs_cost_no_memory():
    tracemalloc.start()
    for name in ("XML bomb", "deep nesting", "external entity"):
        with pytest.raises(ValueError, match="file: "):
            parse_urdf(REFUSED[name][0], origin="file")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 2**20


def test_large_and_undecodable_files_are_refused(tmp_path):
    big, latin = tmp_path / "big.urdf", tmp_path / "latin.urdf"
    big.write_bytes(b" " * (MAX_BYTES + 1))
    latin.write_bytes("<robot name='é'/>".encode("latin-1"))
    with pytest.raises(ValueError, match="larger than 16 MiB"):
        read_text(big)
    with pytest.raises(ValueError, match="not UTF-8"):
        read_text(latin)


def test_written_files_have_the_permissions_of_others(tmp_path):
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    plain.write_text("x")
    write_text(ours, "x")
    assert ours.stat().st_mode == plain.stat().st_mode
    assert ours.read_text() == "x"
    assert sorted(tmp_path.iterdir()) == [ours, plain]


def test_a_failed_write_names_the_file_asked_for_and_leaves_nothing(tmp_path):
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "no" / "such", tmp_path / "taken"):
        with pytest.raises(OSError, match=path.name) as caught:
            write_text(path, "x")
        assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == [tmp_path / "taken"]


@pytest.mark.slow
def test_long_chains_are_read():
    """Ten thousand links: nothing in the reader recurses."""
    count = 10_000
    links = (link(f"l{k}", inertial()) for k in range(count))
    joints = (joint(f"j{k:05}", f"l{k}", f"l{k + 1}", "continuous") for k in range(count - 1))
    description = parse_urdf(robot(*links, *joints))
    assert [joint.parent for joint in description.joints] == list(range(count))
