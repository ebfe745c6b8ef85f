"""Closed forms: a traced program as SymPy expressions, with shared parts named.

Trace first, convert last: the graph has folded and shared everything before SymPy sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nlink.closed_forms.latex import latex_page, subscript
from nlink.closed_forms.simplification import (
    ClosedForm,
    Definitions,
    NumberStyle,
    closed_form,
    inputs,
    symbol_name,
    sympy_module,
)
from nlink.programs.program import Port, Program
from nlink.scalars.graph import Node, operation
from nlink.scalars.traversal import evaluate

if TYPE_CHECKING:
    import sympy

SHORT = 200
"""Programs with more nodes have normal forms that fill pages."""
READABLE = 6_000
"""Characters of LaTeX that a notebook typesets."""


@dataclass(frozen=True, repr=False)
class Symbolic:
    """The expressions of a program, in symbols q_1, qd_1, qdd_1, tau_1 and parameters.

    `values` are one SymPy expression for each output element; `outputs` has them as lists, nested
    as the axes of the arrays, by name. `cse()` is the form with shared parts named, straight from
    the graph, `simplified()` the normal form in sines and cosines of sums of angles, in which
    `definitions` names the denominators or the steps of an elimination.
    """

    program: Program
    normal: bool = False

    @cached_property
    def values(self) -> tuple[sympy.Expr, ...]:
        if self.normal:
            return self._form.expanded()
        sp = sympy_module()
        bindings = {name: sp.Symbol(symbol_name(name)) for name in inputs(self.program.results)}
        return tuple(sp.sympify(x) for x in evaluate(self.program.results, bindings, self._number))

    @cached_property
    def _number(self) -> NumberStyle:
        return NumberStyle.of(node.value for node in self.program.live() if node.op == "const")

    @cached_property
    def _form(self) -> ClosedForm:
        return closed_form(self.program) if self.normal else ClosedForm((), self.values)

    @property
    def definitions(self) -> Definitions:
        """Parts of the normal form that have a name, in the order of their use."""
        return self._form.definitions

    @property
    def outputs(self) -> dict[str, Any]:
        return _shaped(self.program.outputs, self.values)

    def simplified(self) -> Symbolic:
        """Products of sines and cosines as sums over angles, cancelled and collected.

        Raises ArithmeticError where there is no such form (friction has signs), OverflowError
        where the result would be too long to read.

        >>> import nlink
        >>> closed = nlink.symbolic(nlink.load("double_pendulum"), "inverse_mass_matrix")
        >>> print(closed.simplified().definitions[0][1].free_symbols)
        {q_2}
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
            if (uses[node.index] > 1 and not node.is_truth
                    and node.op not in ("const", "input", "neg")):
                symbol = sp.Symbol(f"x{len(definitions)}")
                definitions.append((symbol, values[node.index]))
                values[node.index] = symbol
        results = tuple(sp.sympify(values[node.index]) for node in self.program.results)
        return definitions, _shaped(self.program.outputs, results)

    def _value(self, node: Node, values: dict[int, Any]) -> Any:
        sp = sympy_module()
        if node.op == "input":
            return sp.Symbol(symbol_name(node.name))
        if node.op == "const":
            return self._number(node.value)
        return operation(node.op).apply(*(values[a.index] for a in node.args))

    def __repr__(self) -> str:
        given = ", ".join(port.name for port in self.program.inputs)
        outputs = ", ".join(f"{port.name} {' x '.join(map(str, port.shape))}".strip()
                            for port in self.program.outputs)
        form = ", simplified" if self.normal else ""
        return f"<Symbolic {self.program.name}({given}): {outputs}{form}>"

    def _repr_latex_(self) -> str | None:
        """The equations, typeset by notebooks; None, so that the line above is shown, where they
        would fill pages."""
        if not self.normal and len(self.program.live()) > 5 * SHORT:
            return None
        try:
            text = self.latex()
        except (ArithmeticError, OverflowError):
            return None
        blocks = (f"$$\n{block}\n$$" for block in text.split("\n\n"))
        return None if len(text) > READABLE else "\n\n".join(blocks)

    def __str__(self) -> str:
        lines = [*self.definitions, *self.equations]
        return "\n".join(f"{name} = {value}" for name, value in lines)

    @property
    def equations(self) -> list[tuple[str, sympy.Expr]]:
        """(name of an output element, its expression), in order; see `definitions`."""
        return list(zip(self._names, self._form.values, strict=True))

    @property
    def _names(self) -> list[str]:
        return [f"{port.name}{subscript(port, k)}"
                for port in self.program.outputs for k in range(port.size)]

    def latex(self) -> str:
        """LaTeX for `amsmath`: definitions, then a matrix for each small matrix and one aligned
        equation an element otherwise.

        Short programs are in the normal form, long ones have their shared parts named.
        """
        return latex_page(self.program.outputs, *self._printed())

    def _printed(self) -> tuple[Definitions, tuple[sympy.Expr, ...]]:
        if self.normal or len(self.program.live()) <= SHORT:
            try:
                form = self._form if self.normal else closed_form(self.program)
                return form.definitions, form.values
            except (ArithmeticError, OverflowError):
                if self.normal:
                    raise
        definitions, outputs = self.cse()
        return tuple(definitions), tuple(_flatten(list(outputs.values())))

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
        lines += [f"{head}{name.replace(',', '_')} = {show(x)}{end}"
                  for name, x in zip(self._names, flat, strict=True)]
        return "\n".join(lines)


def _shaped(ports: tuple[Port, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    result, at = {}, 0
    for port in ports:
        flat = list(values[at:at + port.size])
        at += port.size
        if not port.shape:
            result[port.name] = flat[0]
        else:
            for size in reversed(port.shape[1:]):
                flat = [flat[k:k + size] for k in range(0, len(flat), size)]
            result[port.name] = flat
    return result


def _flatten(value: Any) -> list[Any]:
    return [x for item in value for x in _flatten(item)] if isinstance(value, list) else [value]
