"""A module of WebAssembly, run by wasmtime."""

import struct

import numpy as np
import wasmtime


class Instance:
    """A module that has been loaded: its functions, and numbers in its memory."""

    def __init__(self, binary):
        self.store = wasmtime.Store(wasmtime.Engine())
        module = wasmtime.Module(self.store.engine, binary)
        assert not module.imports
        self.exports = wasmtime.Instance(self.store, module, []).exports(self.store)
        self.memory = self.exports["memory"]

    def call(self, name, *arguments):
        return self.exports[name](self.store, *arguments)

    def write(self, at, numbers):
        numbers = np.ravel(numbers)
        self.memory.write(self.store, struct.pack(f"<{len(numbers)}d", *numbers), at)

    def read(self, at, count):
        return np.frombuffer(bytes(self.memory.read(self.store, at, at + 8 * count)))
