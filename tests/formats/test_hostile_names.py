"""Names from strangers: what of them reaches generated files and the terminal."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import nlink
from nlink import cli
from nlink.bench.bench_tables import markdown
from nlink.bench.bench_tables import rows as bench_rows
from nlink.bench.dynamics import run_bench
from nlink.formats.mjcf_writer import mjcf_losses, to_mjcf
from nlink.formats.toml_writer import to_toml
from nlink.formats.urdf import parse_urdf
from nlink.formats.urdf_writer import to_urdf, urdf_losses
from nlink.model.names import SIGNS, plain
from nlink.reports.page import Page

NAMES = {
    "C": 'arm *\\ __asm__(".globl pwned\\npwned: "); \\* */ int pwned; /* ??/',
    "shell": "$(touch pwned) `touch pwned` ; touch pwned | & > pwned",
    "HTML": "<script>pwned()</script> \" onload='pwned()' &lt;",
    "LaTeX": "\\input{pwned} $\\frac$ %pwned ^^41 _{",
    "Markdown": "[pwned](javascript:pwned) | ![](x) <b> `",
    "XML": '"/><link name="pwned"/><!-- ]]> -->',
    "terminal": "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202e\x7f[/] [bold]",
    "format": "{0} %s %n {self.__class__}",
    "markup": "[/]",
}
LETTERS = "Ärm_1.2: a-b+c/д 臂"
ALLOWED = re.compile(rf"[\w{re.escape(SIGNS)}]*")


def hostile(name: str) -> nlink.Robot:
    """A pendulum on a slider with this name everywhere, on a loop of the same name."""
    inertia = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    description = nlink.Description(
        name, tuple(nlink.Link(name + end, 1.0, (0.1, 0.2, 0.3), inertia) for end in "ab"),
        (nlink.Joint(name + "a", nlink.Prismatic()),
         nlink.Joint(name + "b", nlink.Revolute((0.0, 1.0, 0.0)), 1,
                     mimic=nlink.model.mimics.Mimic(name + "a"))),
        (nlink.Frame(name + "f", 2),), source=name)
    return nlink.Robot(description)


@pytest.fixture(params=NAMES)
def robot(request):
    return hostile(NAMES[request.param])


def test_plain_names_stay():
    assert plain(LETTERS) == LETTERS
    assert all(ALLOWED.fullmatch(plain(name)) for name in NAMES.values())
    assert to_urdf(hostile("a b").description).count('name="a ba"') == 2


@pytest.mark.parametrize("robot", ["C", "shell", "terminal"], indirect=True)
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_c(robot, tmp_path):
    paths = nlink.export_c(robot, ["gravity_torque"], tmp_path)
    text = "".join(path.read_text("ascii") for path in paths)
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    assert set(re.findall(r"\b\w*(?:asm|touch|pwned)\w*\b", code)) <= set(
        re.findall(r"\w+", " ".join(path.stem for path in paths))) | set(
        re.findall(r"\b\w+_gravity_torque\b", code)) | {f"{paths[0].stem.upper()}_H"}
    assert text.count("/*") == text.count("*/")
    library = tmp_path / "out.o"
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Werror", "-c", paths[0], "-o", library],
                   check=True)
    symbols = subprocess.run(["nm", "-g", "--defined-only", library], check=True,
                             capture_output=True, text=True).stdout.split()[2::3]
    assert symbols == [f"{paths[0].stem}_gravity_torque"]


@pytest.mark.parametrize("write", [to_urdf, to_mjcf])
def test_xml(robot, write):
    root = ElementTree.fromstring(write(robot.description))
    values = [value for element in root.iter() for value in element.attrib.values()]
    assert all(ALLOWED.fullmatch(value) for value in values)
    links = [e.get("name") for e in root.iter("link" if write is to_urdf else "body")]
    assert len(links) == len(set(links))
    losses = (urdf_losses if write is to_urdf else mjcf_losses)(robot.description)
    changed = [line for line in losses if line.startswith("characters of names")]
    assert len(changed) == 1
    assert changed[0].isprintable()


def test_what_was_written_is_read_with_its_relations(robot):
    again = parse_urdf(to_urdf(robot.description))
    assert again.joints[2].mimic.joint == again.joints[1].name


def test_toml_is_lossless_and_prints(robot):
    text = to_toml(robot.description)
    assert all(line.isprintable() for line in text.splitlines())
    assert tomllib.loads(text)["name"] == robot.name


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


@pytest.mark.parametrize("name", ["HTML", "XML"])
def test_html(name):
    from matplotlib.figure import Figure

    def page(name: str) -> str:
        made = Page(name)
        made.section(name)
        made.heading(name)
        made.text(name)
        made.table([name, "b"], [[name, f"agrees: {name}"]])
        figure = Figure()
        figure.text(0.5, 0.5, plain(name))
        made.panels([figure], name, [name, name])
        return made.html()

    assert Tags(page(NAMES[name])).found == Tags(page("arm")).found


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["Markdown"], indirect=True)
def test_markdown(robot, tmp_path):
    path = tmp_path / "robot.toml"
    path.write_text(to_toml(robot.description), "utf-8")
    bench = run_bench([str(path)], seconds=1e-6, chains=())
    assert {row.what for row in bench_rows(bench)} >= {
        f"{plain(robot.name)} inverse_dynamics, {way}"
        for way in ("one call from Python", "call, out=", "bare kernel", "call of 256, a state")}
    lines = markdown(bench).splitlines()
    rows = [line for line in lines if line.startswith(f"| {plain(robot.name)}")]
    assert rows
    heads = {line.count("|") for line in lines if line.startswith("| robot")}
    assert {row.count("|") for row in rows} <= heads


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["LaTeX"], indirect=True)
def test_plots(robot, tmp_path):
    run = nlink.simulate(robot, t=0.1, every=0.1)
    assert run.plot(tmp_path / "a.png").stat().st_size


@pytest.mark.parametrize("robot", ["LaTeX"], indirect=True)
def test_latex_and_symbols_have_no_names(robot):
    forms = nlink.symbolic(robot, "gravity_torque", parameters="names")
    assert forms.latex() == nlink.symbolic(
        hostile("arm"), "gravity_torque", parameters="names").latex()


def test_completions_are_plain():
    assert all(ALLOWED.fullmatch(name) and " " not in name for name in nlink.robots())


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize("words", [
    ["info"], ["info", "--json"], ["check", "--quick"], ["count", "gravity_torque"],
    ["fd", "--q", "0,0"], ["explain", "--joint", "1"], ["simulate", "--t", "0.1"],
    ["symbolic", "gravity_torque"], ["fd", "--q", "0"], ["export", "OUT"],
    ["convert", "OUT.urdf"]], ids=" ".join)
@pytest.mark.parametrize("robot", ["terminal", "markup"], indirect=True)
def test_commands(robot, words, tmp_path, capfd):
    path = tmp_path / "robot.toml"
    path.write_text(to_toml(robot.description), "utf-8")
    command, *rest = (word.replace("OUT", str(tmp_path / "out")) for word in words)
    status = cli.run([command, str(path), *rest])
    out, err = capfd.readouterr()
    assert status == (2 if words == ["fd", "--q", "0"] else 0), err
    assert all(line.isprintable() for line in (out + err).splitlines())


@pytest.mark.parametrize("robot", ["terminal"], indirect=True)
def test_warnings_and_representations_print(robot):
    lopsided = ((9.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    links = tuple(replace(link, inertia=lopsided) for link in robot.links)
    with pytest.warns(nlink.NonPhysicalWarning) as caught:
        replace(robot.description, links=links)
    assert str(caught[0].message).isprintable()
    assert repr(robot).isprintable()
