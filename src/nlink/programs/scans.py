"""Programs that are done again and again along the rows of arrays: a scan.

A sweep along time takes the rows of some arrays one after the other, one for each knot of a
trajectory. At each row its programs are done in turn; what one leaves by the name of a port, a
later one reads by that name. A row begins with what the row before it has left by the names of
`carried`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nlink.programs.program import Port, Program
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.staged import StagedProgram
from nlink.programs.stepped import SteppedProgram

AnyProgram = Program | StagedProgram | SteppedProgram | RolledProgram


@dataclass(frozen=True)
class Scan:
    """Programs, and where their ports come from and go to, by name.

    1. `carried` says under which name a row leaves what the next one reads; arrays have the first
       values, and the last ones in the end.
    2. `once` are read before the first row, `read` at each, `written` after each.
    3. All others that a program reads have been left by one before it.
    """

    name: str
    programs: tuple[AnyProgram, ...]
    carried: Mapping[str, str] = field(default_factory=dict)
    once: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {*self.carried, *self.once, *self.read}
        for program in self.programs:
            for port in program.inputs:
                if port.name not in known:
                    raise ValueError(f"{self.name}: {program.name} reads {port.name!r}, expected "
                                     f"one of {', '.join(sorted(known))}")
            known |= {port.name for port in program.outputs}
        for name in (*self.carried.values(), *self.written):
            if name not in known:
                raise ValueError(f"{self.name}: {name!r} is left by no program")

    @property
    def ports(self) -> dict[str, Port]:
        """All ports by name."""
        found: dict[str, Port] = {}
        for program in self.programs:
            for port in (*program.inputs, *program.outputs):
                if found.setdefault(port.name, port).size != port.size:
                    raise ValueError(f"{self.name}: {port.name!r} has {port.size} elements in "
                                     f"{program.name}, expected {found[port.name].size}")
        return found

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the arrays, in the order of the native function."""
        return (*self.carried, *self.once, *self.read, *self.written)
