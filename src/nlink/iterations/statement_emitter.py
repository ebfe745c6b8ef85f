"""What a back end writes for the statements of an iteration: one method for each kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from nlink.iterations.recording import Call, Pass, Repeat, Statement, When


class StatementEmitter(ABC):
    """Writes statements one after the other; a back end says how each kind is written.

    `emit_when` and `emit_repeat` write their bodies by `emit_body`.
    """

    def emit_body(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case Pass():
                    self.emit_pass(statement)
                case Call():
                    self.emit_call(statement)
                case When():
                    self.emit_when(statement)
                case Repeat():
                    self.emit_repeat(statement)

    @abstractmethod
    def emit_pass(self, statement: Pass) -> None:
        """Element by element: all of an element is read before any of it is written."""

    @abstractmethod
    def emit_call(self, call: Call) -> None:
        """A program, its columns and cells."""

    @abstractmethod
    def emit_when(self, statement: When) -> None:
        """A branch, taken where its truth holds."""

    @abstractmethod
    def emit_repeat(self, statement: Repeat) -> None:
        """A branch back, while its truth holds and it may."""
