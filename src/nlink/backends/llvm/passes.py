"""Passes: pure functions from code to code that change cost, never meaning.

Each keeps the value of every result up to rounding, NaN and infinities included; a
test runs each of them on random code. `optimize` is the order they are applied in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from nlink.backends.llvm.code import Code, CodeWriter, Instruction, reorder


def optimize(code: Code, *, fma: bool) -> Code:
    """Lowered code, made ready to be emitted."""
    code = move_negations(share_reciprocals(code))
    return schedule(fuse(code) if fma else code)


def share_reciprocals(code: Code) -> Code:
    """One division by d, and products, where several numerators share the divisor d.

    A vector division takes as long as a dozen multiplications and does not pipeline.
    """
    divisions: dict[int, int] = {}
    for i in code.instructions:
        if i.op == "div":
            divisions[i.args[1]] = divisions.get(i.args[1], 0) + 1

    def rewrite(writer: CodeWriter, i: Instruction, args: tuple[int, ...], old: int) -> int:
        if i.op == "div" and divisions[i.args[1]] > 1:
            reciprocal = writer.op("div", writer.const(1.0), args[1])
            numerator = writer.instructions[args[0]]
            if numerator.op == "const" and numerator.value == 1.0:
                return reciprocal
            return writer.op("mul", args[0], reciprocal)
        return writer.write(Instruction(i.op, args, i.value, i.name))

    return _rewritten(code, rewrite)


def move_negations(code: Code) -> Code:
    """A negation moves into the constant or the difference below it, where it is free.

    The graph has moved signs outwards already, so what is left sits on results and
    under functions; `fuse` absorbs those that sit on a fused operation.
    """
    uses = code.uses()

    def free(writer: CodeWriter, old: int, new: int, *, deeper: bool = True) -> int | None:
        """The negative of an instruction at no cost, if there is one."""
        was, i = code.instructions[old], writer.instructions[new]
        if i.op == "const":
            return writer.const(-i.value)
        if i.op == "neg":
            return i.args[0]
        if uses[old] > 1 or was.op != i.op:
            return None
        if i.op == "sub":
            return writer.op("sub", i.args[1], i.args[0])
        if i.op in ("mul", "div") and deeper:
            first, second = i.args
            negative = free(writer, was.args[0], first, deeper=False)
            if negative is not None:
                return writer.op(i.op, negative, second)
            negative = free(writer, was.args[1], second, deeper=False)
            if negative is not None:
                return writer.op(i.op, first, negative)
        return None

    def rewrite(writer: CodeWriter, i: Instruction, args: tuple[int, ...], old: int) -> int:
        if i.op == "neg":
            negative = free(writer, i.args[0], args[0])
            if negative is not None:
                return negative
        return writer.write(Instruction(i.op, args, i.value, i.name))

    return _rewritten(code, rewrite)


def fuse(code: Code) -> Code:
    """Products into the sums that read them, as fused multiply-adds.

    A product disappears only if every reader absorbs it, and a sum absorbs at most one
    product; products with few readers choose first, since they are the likeliest to go.
    """
    instructions, readers = code.instructions, code.readers()
    results = set(code.results)
    absorbed: dict[int, int] = {}
    products = sorted((i for i, x in enumerate(instructions) if x.op == "mul"),
                      key=lambda i: len(readers[i]))
    for product in products:
        sums = readers[product]
        if product not in results and len(set(sums)) == len(sums) and all(
                instructions[s].op in ("add", "sub") and s not in absorbed for s in sums):
            absorbed.update(dict.fromkeys(sums, product))

    uses = code.uses()
    negated = {"fma": "fnms", "fms": "fnma", "fnma": "fms", "fnms": "fma"}

    def rewrite(writer: CodeWriter, i: Instruction, args: tuple[int, ...], old: int) -> int:
        if old in absorbed:
            side = i.args.index(absorbed[old])
            op = "fma" if i.op == "add" else ("fms" if side == 0 else "fnma")
            return writer.op(op, *writer.instructions[args[side]].args, args[1 - side])
        below = writer.instructions[args[0]] if i.op == "neg" else None
        if below is not None and below.op in negated and uses[i.args[0]] == 1:
            return writer.op(negated[below.op], *below.args)
        return writer.write(Instruction(i.op, args, i.value, i.name))

    return _rewritten(code, rewrite)


def schedule(code: Code) -> Code:
    """An order that keeps few values alive at a time.

    Depth first from each result, the operand that needs more registers before the
    other (Sethi and Ullman); a shared value is computed where it is first needed.
    """
    instructions = code.instructions
    need = [0] * len(instructions)
    for i, instruction in enumerate(instructions):
        needs = sorted((need[a] for a in set(instruction.args)), reverse=True)
        need[i] = max((n + k for k, n in enumerate(needs)), default=1)
    order: list[int] = []
    done = [False] * len(instructions)
    for result in code.results:
        stack = [(result, False)]
        while stack:
            i, ready = stack.pop()
            if done[i]:
                continue
            if ready:
                done[i] = True
                order.append(i)
                continue
            stack.append((i, True))
            # the last one pushed is computed first
            stack.extend((a, False) for a in sorted(instructions[i].args, key=need.__getitem__)
                         if not done[a])
    return reorder(code, order)


def with_results_in_order(code: Code, order: Sequence[int]) -> Code:
    """`schedule`, the results computed in another order; which is which stays as it was."""
    moved = schedule(Code(code.instructions, tuple(code.results[k] for k in order)))
    place = dict(zip(order, moved.results, strict=True))
    return Code(moved.instructions, tuple(place[k] for k in range(len(order))))


def most_alive(code: Code) -> int:
    """How many results of operations are waiting to be read, at most."""
    last = dict[int, int]()
    for n, i in enumerate(code.instructions):
        last.update(dict.fromkeys(i.args, n))
    most = alive = 0
    for n, i in enumerate(code.instructions):
        alive -= sum(last[a] == n and bool(code.instructions[a].args) for a in set(i.args))
        alive += bool(i.args) and n in last
        most = max(most, alive)
    return most


LATENCY = {"add": 3, "sub": 3, "div": 14, "sqrt": 20, "sin": 55, "cos": 55}
"""Cycles until a result can be used, about; of what is not here, `FUSED`."""
FUSED = 4
UNITS = 2
"""Operations that begin in a cycle."""
WINDOW = 160
"""How far an operation may overtake those before it. A core looks ahead by about a hundred
instructions, loads and stores included."""


def interleave(code: Code) -> Code:
    """The order in which a core that looks further ahead would begin the operations.

    Depth first, an operation needs what was begun just before it, and waits. Here in each cycle
    the first operations in the window begin whose arguments are known; so independent branches
    are side by side, for a few more values that are alive.
    """
    instructions = code.instructions
    operations = [i for i, x in enumerate(instructions) if x.args]
    place = {i: k for k, i in enumerate(operations)}
    awaited = [len({a for a in instructions[i].args if a in place}) for i in operations]
    readers: list[list[int]] = [[] for _ in operations]
    for k, i in enumerate(operations):
        for a in set(instructions[i].args) & place.keys():
            readers[place[a]].append(k)
    known = [0] * len(operations)  # when all arguments are, as far as they have begun
    ready = [k for k, count in enumerate(awaited) if not count]
    later: list[tuple[int, int]] = []
    begun = [False] * len(operations)
    order = dict[int, None]()
    first = now = 0
    while ready or later:
        while later and later[0][0] <= now:
            heappush(ready, heappop(later)[1])
        for _ in range(UNITS):
            if not ready or ready[0] >= first + WINDOW:
                break
            k = heappop(ready)
            begun[k] = True
            i = operations[k]
            # constants and inputs where they are first needed
            order.update(dict.fromkeys([*(a for a in instructions[i].args if a not in place), i]))
            for reader in readers[k]:
                awaited[reader] -= 1
                known[reader] = max(known[reader],
                                    now + LATENCY.get(instructions[i].op, FUSED))
                if not awaited[reader]:
                    heappush(later, (known[reader], reader))
        while first < len(begun) and begun[first]:
            first += 1
        now += 1
    order.update(dict.fromkeys(code.results))
    return reorder(code, list(order))


def _rewritten(code: Code,
               rewrite: Callable[[CodeWriter, Instruction, tuple[int, ...], int], int]) -> Code:
    """New code from a rule that writes each old instruction, its arguments already new."""
    writer, place = CodeWriter(), list[int]()
    for old, i in enumerate(code.instructions):
        place.append(rewrite(writer, i, tuple(place[a] for a in i.args), old))
    return writer.finish([place[r] for r in code.results])
