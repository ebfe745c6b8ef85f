"""What `robot.operators` returns: the DeNOC papers' objects and the spatial operators at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from nlink.model.mechanism import Mechanism
from nlink.papers.operators.denoc import DeNOC
from nlink.papers.operators.linear import Array, Named, Operator
from nlink.papers.operators.spatial import SpatialOperators

SHARED = ("phi", "Phi", "P", "G", "K", "S", "phi_tilde", "psi_tilde", "Delta_phi", "Delta_psi",
          "mass", "mass_inverse", "V", "a", "b", "g", "J")


class Called(Named):
    """An operator of [RK88] whose symbol [Saha99] gives to vectors: `psi` and `psi(i)`."""

    def __init__(self, of: Operator, vectors: Callable[..., Array]) -> None:
        super().__init__(of.name, of)
        self._vectors = vectors

    def __call__(self, *numbers: Any) -> Array:
        return self._vectors(*numbers)


class Operators(DeNOC):
    """The objects of the DeNOC papers and of [RK88] for a mechanism in one state.

    `spatial` holds the report's family, with reference points on the joints and all its names.
    The names that the two families do not share are here too, about mass centres as the DeNOC
    objects are, so that they fit together: phi is Nl^T, H is Nd^T, and M and D are the same.
    Where both use a name (`M`, `D`, `L`, `E`, `B`, `I`, `C`, `Psi`) it is the DeNOC papers'.

    >>> import nlink, numpy as np
    >>> o = nlink.load("planar3").operators([0.1, 0.2, 0.3])
    >>> bool(np.allclose((o.H @ o.phi @ o.M @ o.phi.T @ o.H.T).dense(), o.I.dense()))
    True
    """

    def __init__(self, mechanism: Mechanism, q: Array, qd: Array, name: str = "mechanism") -> None:
        super().__init__(mechanism, q, qd, name)
        self._mechanism = mechanism

    @cached_property
    def spatial(self) -> SpatialOperators:
        """The operators of [RK88], reference points on the joints."""
        return SpatialOperators(self._mechanism, self.q, self.qd, self.name)

    @cached_property
    def centred(self) -> SpatialOperators:
        """The same about mass centres."""
        return SpatialOperators(self._mechanism, self.q, self.qd, self.name, "centres")

    @cached_property
    def psi(self) -> Called:  # type: ignore[override]
        """psi of [RK88, 5.1]; called, psi_i or psi_ik of [Saha99, 48]."""
        return Called(self.centred.psi, partial(DeNOC.psi, self))

    @cached_property
    def H(self) -> Called:  # type: ignore[override]
        """H of [RK88, 3.5]; called, H_ij of [Saha99, 28]."""
        return Called(self.centred.H, partial(DeNOC.H, self))

    def __getattr__(self, name: str) -> Any:
        if name in SHARED:
            return getattr(self.centred, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
