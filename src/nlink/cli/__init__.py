"""The `nlink` command: one small function a command, printing left to `nlink.reports`.

Whatever a command raises becomes one line on standard error and a status (`run`), so no
command handles errors itself. Packages a command needs are imported when it runs.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress

import typer

from nlink.cli import queries, ik_command, jobs, benchmarks_command  # isort: skip  # the order of the help
from nlink.cli import studies, identification_commands, identification_fit  # isort: skip
from nlink.cli import optimize_command, viewing  # isort: skip
from nlink.cli.app import app
from nlink.model.names import visible

__all__ = [
    "app", "benchmarks_command", "identification_commands", "identification_fit", "ik_command",
    "jobs", "main", "optimize_command", "queries", "run", "studies", "viewing"]


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its status; all that goes wrong is one line."""
    _open_streams()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # NonPhysicalWarning is one
            warnings.showwarning = _show_warning
            status = app(args=list(arguments), prog_name="nlink", standalone_mode=False)
            sys.stdout.flush()
    except typer.TyperException as error:
        return _fail(error.format_message())
    except BrokenPipeError:
        # the reader has what it wanted; the interpreter's own last flush must not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        return _fail(f"{where}{error.strerror or error}")
    except RecursionError:
        return _fail("the mechanism is too long a chain for this command")
    except MemoryError as error:
        return _fail(f"out of memory: {error}")
    except (ValueError, TypeError, ArithmeticError, ImportError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 130
    return int(status or 0)


def _fail(message: str) -> int:
    _complain("nlink:", message)
    return 2


def _show_warning(message: Warning | str, *_where: object) -> None:
    _complain("nlink: warning:", str(message))


def _complain(who: str, message: str) -> None:
    with suppress(OSError):  # who has closed standard error wants to hear nothing
        print(who, visible(" ".join(message.split())), file=sys.stderr, flush=True)


def _open_streams() -> None:
    """Standard streams that were closed, as by `>&-`, become the null device: a file opened in
    their place would get what is printed."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115


def main() -> None:
    """The entry point of the installed command."""
    sys.exit(run(sys.argv[1:]))
