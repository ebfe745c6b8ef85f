"""Coverage-guided fuzzing of the readers: python tests/fuzz/fuzz_files.py [libFuzzer options].

Needs atheris (pip install atheris) and runs until it finds something, or for `-runs=N`. An
input is edits of a valid file, or text as it comes.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    import atheris

    root = Path(__file__).parents[2]
    sys.path[:0] = [str(root / "src"), str(root / "tests" / "formats")]
    with atheris.instrument_imports(include=["nlink.formats", "nlink.model"]):
        from mutations import MJCF, TOML, URDF, accept, mutate

    seeds = {"urdf": URDF, "toml": TOML, "mjcf": MJCF}

    def one_input(data: bytes) -> None:
        provider = atheris.FuzzedDataProvider(data)
        kind = provider.PickValueInList(list(seeds))
        if provider.ConsumeBool():
            text = provider.ConsumeUnicodeNoSurrogates(4096)
        else:
            edits = [tuple(provider.ConsumeIntListInRange(3, 0, 400)) for _ in range(3)]
            text = mutate(seeds[kind], edits)
        accept(kind, text)

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
