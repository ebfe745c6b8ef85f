"""Programs as CasADi Functions: the graph itself in CasADi's scalars, nothing called from outside.

So CasADi knows every operation: it finds the sparsity of derivatives, differentiates to any order,
and writes C. Arrays are CasADi's matrices: of a vector a column, of a number one element, and of
more than two dimensions the first as rows and all others, row-major, as columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from nlink.programs.program import Port, Program
from nlink.scalars.graph import operation
from nlink.scalars.lookup import LookupTable
from nlink.scalars.traversal import evaluate


def casadi_module() -> Any:
    """CasADi, or a sentence that says how to get it."""
    try:
        import casadi
    except ImportError:
        raise ImportError("functions of CasADi need casadi: pip install nlink[casadi]") from None
    return casadi


def casadi_function(program: Program, name: str) -> Any:
    """The `casadi.Function` of a program, its inputs and outputs named as the ports."""
    casadi = casadi_module()
    symbols = [casadi.SX.sym(port.name, *_matrix(port)) for port in program.inputs]
    bindings = {f"{port.name}[{k}]": x for port, symbol in zip(
        program.inputs, symbols, strict=True) for k, x in enumerate(_elements(casadi, symbol))}
    values = iter(evaluate(program.results, bindings, meaning=lambda op: _meaning(casadi, op)))
    results = [_array(casadi, port, [next(values) for _ in range(port.size)])
               for port in program.outputs]
    return casadi.Function(identifier(name), symbols, results,
                           *([port.name for port in ports]
                             for ports in (program.inputs, program.outputs)))


def identifier(name: str) -> str:
    """A name that CasADi accepts: letters and digits, and single underscores between them."""
    plain = re.sub(r"[\W_]+", "_", name, flags=re.ASCII).strip("_") or "f"
    return plain if plain[0].isalpha() else f"f{plain}"


def _matrix(port: Port) -> tuple[int, int]:
    rows, *others = port.shape or (1,)
    return rows, math.prod(others)


def _elements(casadi: Any, matrix: Any) -> Sequence[Any]:
    """The elements row by row: CasADi has them column by column."""
    return casadi.vertsplit(casadi.vec(matrix.T)) if matrix.numel() else []


def _array(casadi: Any, port: Port, values: Sequence[Any]) -> Any:
    rows, columns = _matrix(port)
    return casadi.reshape(casadi.vertcat(casadi.SX(rows * columns, 0), *values)
                          if not values else casadi.SX(casadi.vertcat(*values)), columns, rows).T


def _meaning(casadi: Any, op: str) -> Callable[..., Any]:
    """An operation of a graph on CasADi's scalars."""
    row = operation(op)
    if isinstance(row, LookupTable):
        numbers = row.values.tolist()
        steps = list(range(1, len(numbers)))
        return (lambda x: casadi.pw_const(x, steps, numbers)) if steps else lambda _: numbers[0]
    if row.casadi:
        return getattr(casadi, row.casadi)
    meaning = row.operator or (None if row.arity else row.floats)
    if meaning is None:
        raise ValueError(f"{op}: CasADi has no such operation, expected a function without it")
    return meaning
