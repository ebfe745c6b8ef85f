"""Closed forms: a traced program as SymPy expressions, with shared parts named.

Trace first, convert last: the graph has folded and shared everything before SymPy sees it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nlink.scalars.graph import OPS, Node, evaluate, reachable
from nlink.scalars.harmonics import Harmonics, rational
from nlink.scalars.program import Port, Program

if TYPE_CHECKING:
    import sympy

_RATES = ("qd", "qdd")
_LATEX = {"q": "q", "qd": r"\dot{q}", "qdd": r"\ddot{q}", "tau": r"\tau", "alpha": r"\alpha",
          "theta": r"\theta", "gamma": r"\gamma", "f_ext": "f"}


def sympy_module() -> Any:
    """SymPy, or a sentence that says how to get it."""
    try:
        import sympy
    except ImportError:
        raise ImportError("closed forms need SymPy: pip install nlink[symbolic]") from None
    return sympy


@dataclass(frozen=True)
class Symbolic:
    """The expressions of a program, in symbols q_1, qd_1, qdd_1, tau_1 and parameters.

    `values` are one SymPy expression for each output element; `outputs` has them as lists and
    matrices by name. `cse()` is the form with shared parts named, straight from the graph,
    `simplified()` the normal form in sines and cosines of sums of angles.
    """

    program: Program
    normal: bool = False

    @cached_property
    def values(self) -> tuple[sympy.Expr, ...]:
        if self.normal:
            return tuple(_harmonics_to_sympy(h) for h in _harmonics(self.program))
        sp = sympy_module()
        bindings = {name: sp.Symbol(_symbol_name(name)) for name in _inputs(self.program.results)}
        return tuple(sp.sympify(x) for x in evaluate(self.program.results, bindings, _number))

    @property
    def outputs(self) -> dict[str, Any]:
        return _shaped(self.program.outputs, self.values)

    def simplified(self) -> Symbolic:
        """Products of sines and cosines as sums over angles, cancelled and collected.

        Raises ArithmeticError where an expression divides by a sum, OverflowError where the
        result would be too long to read.
        """
        return Symbolic(self.program, normal=True)

    def cse(self) -> tuple[list[tuple[sympy.Symbol, sympy.Expr]], dict[str, Any]]:
        """Definitions of shared parts x0, x1, ... in order, and the outputs in terms of them."""
        sp = sympy_module()
        live = self.program.live()
        uses = dict.fromkeys((node.index for node in live), 0)
        for node in (*(a for n in live for a in n.args), *self.program.results):
            uses[node.index] += 1
        values: dict[int, Any] = {}
        definitions = []
        for node in live:
            values[node.index] = self._value(node, values)
            if uses[node.index] > 1 and node.op not in ("const", "input", "neg"):
                symbol = sp.Symbol(f"x{len(definitions)}")
                definitions.append((symbol, values[node.index]))
                values[node.index] = symbol
        results = tuple(sp.sympify(values[node.index]) for node in self.program.results)
        return definitions, _shaped(self.program.outputs, results)

    def _value(self, node: Node, values: dict[int, Any]) -> Any:
        sp = sympy_module()
        if node.op == "input":
            return sp.Symbol(_symbol_name(node.name))
        if node.op == "const":
            return _number(node.value)
        return OPS[node.op].apply(*(values[a.index] for a in node.args))

    def __str__(self) -> str:
        return "\n".join(f"{name} = {value}" for name, value in self.equations)

    @property
    def equations(self) -> list[tuple[str, sympy.Expr]]:
        """(name of an output element, its expression), in order."""
        names = [f"{port.name}{_subscript(port, k)}"
                 for port in self.program.outputs for k in range(port.size)]
        return list(zip(names, self.values, strict=True))

    def latex(self) -> str:
        """LaTeX: a matrix for each matrix, else one aligned equation an element."""
        sp = sympy_module()
        names = {s: _latex_name(s.name) for v in self.values for s in v.free_symbols}

        def show(expression: Any) -> str:
            return sp.latex(expression, symbol_names=names)

        blocks = []
        for port, value in zip(self.program.outputs, self.outputs.values(), strict=True):
            if len(port.shape) == 2:
                blocks.append(f"{_LATEX.get(port.name, port.name)} = {show(sp.Matrix(value))}")
            else:
                items = value if isinstance(value, list) else [value]
                rows = (f"{_latex_name(port.name + _subscript(port, k))} &= {show(x)}"
                        for k, x in enumerate(items))
                blocks.append("\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}")
        return "\n\n".join(blocks)

    def code(self, language: str = "python") -> str:
        """Assignments in Python or C, shared parts first."""
        sp = sympy_module()
        printers: dict[str, Callable[..., str]] = {"python": sp.pycode, "c": sp.ccode}
        if language not in printers:
            raise ValueError(f"language: {language!r}, expected one of {', '.join(printers)}")
        definitions, outputs = self.cse()
        show, end = printers[language], ";" if language == "c" else ""
        head = "const double " if language == "c" else ""
        lines = [f"{head}{symbol} = {show(value)}{end}" for symbol, value in definitions]
        flat = [x for port in self.program.outputs for x in _flatten(outputs[port.name])]
        names = [f"{port.name}{_subscript(port, k)}"
                 for port in self.program.outputs for k in range(port.size)]
        lines += [f"{head}{name} = {show(x)}{end}" for name, x in zip(names, flat, strict=True)]
        return "\n".join(lines)


def _inputs(results: tuple[Node, ...]) -> list[str]:
    return [node.name for node in reachable(results) if node.op == "input"]


def _number(x: float | Fraction) -> Any:
    """A number as one would write it: 1/12, but 9.81."""
    sp = sympy_module()
    fraction = x if isinstance(x, Fraction) else rational(x)
    if fraction.denominator <= 60:
        return sp.Rational(fraction.numerator, fraction.denominator)
    return sp.Float(float(x))


def _symbol_name(name: str) -> str:
    """q[0] is q_1 on paper; parameters keep their names."""
    match = re.fullmatch(r"(\w+)\[(\d+)\]", name)
    return f"{match[1]}_{int(match[2]) + 1}" if match else name


def _subscript(port: Port, k: int) -> str:
    if not port.shape:
        return ""
    if len(port.shape) == 1:
        return f"_{k + 1}"
    return f"_{k // port.shape[1] + 1}{k % port.shape[1] + 1}"


def _latex_name(name: str) -> str:
    match = re.fullmatch(r"(qdd|qd|q|tau|alpha|theta|gamma)_(\d+)", name)
    if match:
        return f"{_LATEX[match[1]]}_{{{match[2]}}}"
    match = re.fullmatch(r"([A-Za-z]+?)([xyz]*)_(\d+)", name)
    return f"{match[1]}_{{{match[3]}{match[2]}}}" if match else name


def _shaped(ports: tuple[Port, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    result, at = {}, 0
    for port in ports:
        flat = list(values[at:at + port.size])
        at += port.size
        if not port.shape:
            result[port.name] = flat[0]
        elif len(port.shape) == 1:
            result[port.name] = flat
        else:
            columns = port.shape[1]
            result[port.name] = [flat[k:k + columns] for k in range(0, len(flat), columns)]
    return result


def _flatten(value: Any) -> list[Any]:
    return [x for item in value for x in _flatten(item)] if isinstance(value, list) else [value]


def _harmonics(program: Program) -> list[Harmonics]:
    bindings = {name: Harmonics.symbol(_symbol_name(name)) for name in _inputs(program.results)}
    values = evaluate(program.results, bindings, Harmonics.number)
    return [v if isinstance(v, Harmonics) else Harmonics.number(v) for v in values]


def _harmonics_to_sympy(value: Harmonics) -> sympy.Expr:
    """Collected twice: by products of rates, then by sine or cosine; coefficients factored."""
    sp = sympy_module()
    groups: dict[Any, dict[Any, Any]] = {}
    for (monomial, kind, angle), c in sorted(value.real_terms().items(), key=lambda t: t[0]):
        rates = sp.Mul(*(sp.Symbol(n)**k for n, k in monomial if n.split("_")[0] in _RATES))
        rest = sp.Mul(*(sp.Symbol(n)**k for n, k in monomial if n.split("_")[0] not in _RATES))
        argument = sp.Add(*(k * sp.Symbol(n) for n, k in angle))
        trig = {"": lambda _: sp.Integer(1), "cos": sp.cos, "sin": sp.sin}[kind](argument)
        waves = groups.setdefault(rates, {})
        waves[trig] = waves.get(trig, 0) + _number(c) * rest
    total = sp.Integer(0)
    for rates, waves in groups.items():
        wave = sp.Add(*(sp.factor_terms(coefficient) * trig for trig, coefficient in waves.items()))
        total += sp.factor_terms(wave, radical=False) * rates if rates != 1 else wave
    return total
