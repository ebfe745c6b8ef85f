"""Modules that are left out where the package that they are for is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/nlink/backends/torch_calls.py"]
