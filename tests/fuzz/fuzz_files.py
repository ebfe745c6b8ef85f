"""Coverage-guided fuzzing of the readers: python tests/fuzz/fuzz_files.py [libFuzzer options].

Needs atheris (pip install atheris) and runs until it finds something, or for `-runs=N`. The
first byte of an input chooses the reader; a corpus folder may be given as an argument.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "formats")]

with atheris.instrument_imports(include=["nlink.formats", "nlink.model"]):
    from mutations import TOML, URDF, accept, mutate


def one_input(data: bytes) -> None:
    """Edits of a seed, or the bytes as they are."""
    provider = atheris.FuzzedDataProvider(data)
    kind = provider.PickValueInList(["urdf", "toml"])
    if provider.ConsumeBool():
        text = provider.ConsumeUnicodeNoSurrogates(4096)
    else:
        seed = URDF if kind == "urdf" else TOML
        text = mutate(seed, [tuple(provider.ConsumeIntListInRange(3, 0, 400)) for _ in range(3)])
    accept(kind, text)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
