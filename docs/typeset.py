"""Equations of the pages as MathML, which browsers draw by themselves: no script, no font, no
request to another site."""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ENTITY = re.compile(r"&(?!amp;|lt;|gt;)\w+;")
ACCENTS = frozenset("˙¨ˆ˜¯^~→")
"""Dots, hats and the like, which stand close above a symbol."""

ElementTree.register_namespace("", NAMESPACE)


def mathml(source: str, *, block: bool) -> str:
    """An equation in LaTeX as MathML.

    docutils puts an index of a symbol with a dot below the symbol; it belongs beside it.

    >>> "munderover" in mathml(r"{\\dot q}_i", block=False)
    False
    """
    drawn = ENTITY.sub(lambda m: html.unescape(m[0]), tex2mathml(source, as_block=block))
    tree = ElementTree.fromstring(drawn)
    for above in list(tree.iter()):
        for place, element in enumerate(above):
            if len(element) == 3 and _name(element) == "munderover" and _accent(element[2]):
                symbol, index, accent = element
                dotted = ElementTree.Element(f"{{{NAMESPACE}}}mover")
                dotted.extend((symbol, accent))
                beside = ElementTree.Element(f"{{{NAMESPACE}}}msub")
                beside.extend((dotted, index))
                above[place] = beside
    for element in tree.iter():
        if _name(element) == "mover" and _accent(element[1]):
            element.set("accent", "true")
    return ElementTree.tostring(tree, encoding="unicode")


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _accent(element: ElementTree.Element) -> bool:
    return (element.text or "").strip() in ACCENTS


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    drawn = mathml(node.astext(), block=True)
    translator.body.append(f'<div class="equation">{drawn}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
