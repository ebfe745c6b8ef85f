"""LaTeX of closed forms: matrices where they fit on a line, aligned equations elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from nlink.closed_forms.simplification import Definitions, sympy_module
from nlink.programs.program import Port

LINE = 88
"""Visible characters of a line; longer sums are broken between terms."""
CELL = 44
"""Matrices with a longer element are written element by element."""

_NAMES = {"q": "q", "qd": r"\dot{q}", "qdd": r"\ddot{q}", "tau": r"\tau", "alpha": r"\alpha",
          "alphap": r"{\alpha'}", "mhat": r"\hat{m}", "Delta": r"\Delta", "theta": r"\theta",
          "gamma": r"\gamma", "beta": r"\beta", "Lambda": r"\Lambda", "nu": r"\nu", "xi": r"\xi",
          "nud": r"\dot{\nu}", "xid": r"\dot{\xi}", "f_ext": "f", "Minv": "M^{-1}"}


def latex_page(ports: tuple[Port, ...], definitions: Definitions, values: tuple[Any, ...]) -> str:
    """Definitions first, then a block for each output."""
    named = [(symbol.name, value) for symbol, value in definitions]
    blocks = [_aligned(named)] if named else []
    at = 0
    for port in ports:
        blocks.append(_output(port, values[at:at + port.size]))
        at += port.size
    return "\n\n".join(blocks)


def latex_name(name: str) -> str:
    """tau_1 is \\tau_{1}; a letter of an axis goes below with the number.

    >>> print(latex_name("dtau_dqd_12"))
    \\left(\\frac{\\partial \\tau}{\\partial \\dot{q}}\\right)_{12}
    """
    match = re.fullmatch(r"d([A-Za-z]+)_d([A-Za-z]+)(?:_([\dij,]+))?", name)
    if match:
        above, below = (_NAMES.get(part, part) for part in match.groups()[:2])
        whole = rf"\frac{{\partial {above}}}{{\partial {below}}}"
        return rf"\left({whole}\right)_{{{match[3]}}}" if match[3] else whole
    match = re.fullmatch(
        rf"(d?)({'|'.join(sorted(_NAMES, key=len, reverse=True))})_([\w,]+)", name)
    if match:
        base = _NAMES[match[2]]
        return f"{match[1]}" + (
            f"({base})_{{{match[3]}}}" if "^" in base else f"{base}_{{{match[3]}}}")
    match = re.fullmatch(r"([A-Za-z]+?)([xyz]*)_?(\d+)", name)
    if match:
        return f"{match[1]}_{{{match[3]}{match[2]}}}"
    base, _, below = name.partition("_")
    return f"{_NAMES.get(base, base)}_{{{below}}}" if below else _NAMES.get(name, name)


def subscript(port: Port, k: int) -> str:
    """The numbers of an element, from 1: _3 in a vector, _12 in a matrix, _123 beyond."""
    if not port.shape:
        return ""
    numbers = []
    for size in reversed(port.shape):
        k, number = divmod(k, size)
        numbers.append(str(number + 1))
    return "_" + ("" if max(port.shape) < 10 else ",").join(reversed(numbers))


def _output(port: Port, values: tuple[Any, ...]) -> str:
    equations = [(f"{port.name}{subscript(port, k)}", value) for k, value in enumerate(values)]
    if len(port.shape) != 2:
        return _aligned(equations)
    rows, columns = port.shape
    cells = [_show(value) for value in values]
    if max(map(_width, cells)) <= CELL:
        lines = (" & ".join(cells[k:k + columns]) for k in range(0, rows * columns, columns))
        body = " \\\\\n".join(lines)
        return f"{latex_name(port.name)} = \\begin{{bmatrix}}\n{body}\n\\end{{bmatrix}}"
    symmetric = rows == columns and all(
        values[i * rows + j] == values[j * rows + i] for i in range(rows) for j in range(i))
    if not symmetric:
        return _aligned(equations)
    upper = [equation for k, equation in enumerate(equations) if k // rows <= k % rows]
    return _aligned(upper, f"{latex_name(f'{port.name}_ji')} &= {latex_name(f'{port.name}_ij')}")


def _aligned(equations: Iterable[tuple[str, Any]], *more: str) -> str:
    rows = (*(_equation(latex_name(name), value) for name, value in equations), *more)
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def _equation(name: str, value: Any) -> str:
    """name = value; the denominator of a long quotient goes to the left, to be broken above."""
    above, below = sympy_module().fraction(value)
    if below != 1 and _width(_show(above)) > LINE:
        return f"{_show(below)} \\, {name} &= {_broken(above)}"
    return f"{name} &= {_broken(value)}"


def _broken(expression: Any) -> str:
    """A sum in lines of whole terms; anything else as it is."""
    whole = _show(expression)
    if not getattr(expression, "is_Add", False) or _width(whole) <= LINE:
        return whole
    lines, line = [], ""
    for term in expression.as_ordered_terms():
        text = _show(term)
        text = f"- {text[1:].lstrip()}" if text.startswith("-") else f"+ {text}"
        if line and _width(line) + _width(text) > LINE:
            lines.append(line)
            line = ""
        line = f"{line} {text}".strip()
    lines.append(line)
    return " \\\\\n&\\quad ".join(lines).removeprefix("+ ")


def _show(expression: Any) -> str:
    sp = sympy_module()
    expression = sp.sympify(expression)
    names = {symbol: latex_name(symbol.name) for symbol in expression.free_symbols}
    return sp.latex(expression, symbol_names=names)


def _width(text: str) -> int:
    """About how many characters wide a formula is printed."""
    text = re.sub(r"\\frac{(.*?)}{(.*?)}", r"\1", text)
    text = re.sub(r"\\(left|right|quad|dot|ddot|hat)\b", "", text)
    return len(re.sub(r"\\[a-z]+|[{}_^ ]", lambda m: "xxx" if m[0][0] == "\\" else "", text))
