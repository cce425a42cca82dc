"""Products of two matrices that are not multiplied out, by TransformerLens' names: Model.QK and Model.OV are such."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # of numpy, or a tensor of torch


class FactoredMatrix:
    """A @ B: [..., ldim, mdim] @ [..., mdim, rdim], of small mdim, in arrays of numpy or tensors of torch.

    What is computed (singular values, eigenvalues, norm, products) takes the time of matrices with mdim rows. V has the right
    singular vectors as columns; Vh is V, too, as in TransformerLens: M = U S V^T.
    """

    __array_ufunc__ = None  # numpy leaves array @ self and array * self to this class

    def __init__(self, A: Array, B: Array) -> None:
        """Leading axes are broadcast."""
        if A.shape[-1] != B.shape[-2]:
            raise ValueError(f"FactoredMatrix: expected A [..., l, m] and B [..., m, r], found {list(A.shape)} and {list(B.shape)}")
        lead = np.broadcast_shapes(tuple(A.shape[:-2]), tuple(B.shape[:-2]))
        self.A, self.B = _broadcast(A, (*lead, *A.shape[-2:])), _broadcast(B, (*lead, *B.shape[-2:]))
        self.ldim, self.mdim, self.rdim = int(A.shape[-2]), int(A.shape[-1]), int(B.shape[-1])
        self.shape = (*lead, self.ldim, self.rdim)
        self.ndim, self.has_leading_dims = len(self.shape), bool(lead)
        self._svd: tuple[Array, Array, Array] | None = None

    def __repr__(self) -> str:
        return f"FactoredMatrix: Shape({self.shape}), Hidden Dim({self.mdim})"

    # ---- products ----

    @property
    def pair(self) -> tuple[Array, Array]:
        """Both factors."""
        return self.A, self.B

    @property
    def AB(self) -> Array:
        """The matrix itself."""
        return self.A @ self.B

    @property
    def BA(self) -> Array:
        """The small product [..., mdim, mdim], of a square matrix."""
        if self.ldim != self.rdim:
            raise ValueError(f"BA: expected a square matrix, found {list(self.shape)}")
        return self.B @ self.A

    @property
    def T(self) -> FactoredMatrix:
        """Transposed."""
        return FactoredMatrix(_turned(self.B), _turned(self.A))

    def __matmul__(self, other: Any) -> Any:
        """With a matrix or a factored one: factored, over the smaller inner axis; with a vector: a vector."""
        if isinstance(other, FactoredMatrix):
            return (self @ other.A) @ other.B
        if other.ndim < 2:
            return (self.A @ (self.B @ other[..., None]))[..., 0]
        return FactoredMatrix(self.A, self.B @ other) if self.rdim > self.mdim else FactoredMatrix(self.AB, other)

    def __rmatmul__(self, other: Any) -> Any:
        if other.ndim < 2:
            return ((other[..., None, :] @ self.A) @ self.B)[..., 0, :]
        return FactoredMatrix(other @ self.A, self.B) if self.ldim > self.mdim else FactoredMatrix(other, self.AB)

    def __mul__(self, scalar: Any) -> FactoredMatrix:
        """The product with a number."""
        if np.size(scalar) != 1:
            raise ValueError(f"FactoredMatrix *: expected a number, found {list(np.shape(scalar))} (@ multiplies matrices)")
        return FactoredMatrix(self.A * scalar, self.B)

    __rmul__ = __mul__

    # ---- what it is made of ----

    def svd(self) -> tuple[Array, Array, Array]:
        """U [..., ldim, mdim], S [..., mdim], V [..., rdim, mdim], through the triangles of the factors."""
        if self._svd is None:
            linalg = _linalg(self.A)
            (q_left, left), (q_right, right) = linalg.qr(self.A), linalg.qr(_turned(self.B))
            u, s, vh = linalg.svd(left @ _turned(right), full_matrices=False)
            self._svd = q_left @ u, s, q_right @ _turned(vh)
        return self._svd

    @property
    def U(self) -> Array:
        """Left singular vectors, a column each."""
        return self.svd()[0]

    @property
    def S(self) -> Array:
        """Singular values, the largest first."""
        return self.svd()[1]

    @property
    def V(self) -> Array:
        """Right singular vectors, a column each."""
        return self.svd()[2]

    Vh = V  # TransformerLens' name; not transposed there either

    @property
    def eigenvalues(self) -> Array:
        """Those that may be other than 0, complex."""
        return _linalg(self.A).eigvals(self.BA) + 0j

    def norm(self) -> Array:
        """The root of the sum of squares."""
        return (self.S**2).sum(-1) ** 0.5

    def make_even(self) -> FactoredMatrix:
        """The same matrix of factors with equal singular values."""
        root = self.S**0.5
        return FactoredMatrix(self.U * root[..., None, :], root[..., :, None] * _turned(self.V))

    def collapse_l(self) -> Array:
        """[..., mdim, rdim]: the matrix in the directions of U."""
        return self.S[..., :, None] * _turned(self.V)

    def collapse_r(self) -> Array:
        """[..., ldim, mdim]: the matrix in the directions of V."""
        return self.U * self.S[..., None, :]

    def get_corner(self, k: int = 3) -> Array:
        """The first k of each axis, multiplied out."""
        return (self.A[..., :k, :] @ self.B[..., :, :k])[(slice(k),) * self.ndim]

    def unsqueeze(self, k: int) -> FactoredMatrix:
        """A new axis k among the leading ones."""
        index = (slice(None),) * k + (None,)
        return FactoredMatrix(self.A[index], self.B[index])

    def __getitem__(self, index: Any) -> FactoredMatrix:
        """Indices of the leading axes, then of rows and columns: a number keeps its axis there."""
        index = index if isinstance(index, tuple) else (index,)
        if any(i is Ellipsis for i in index):
            at = [i is Ellipsis for i in index].index(True)
            index = index[:at] + (slice(None),) * (self.ndim - len(index) + 1) + index[at + 1 :]
        if len(index) > self.ndim:
            raise IndexError(f"FactoredMatrix: {len(index)} indices for {self.ndim} axes")
        lead = index[: self.ndim - 2]
        rows, cols = [slice(i, i + 1 or None) if np.ndim(i) == 0 and not isinstance(i, slice) else i
                      for i in (*index[self.ndim - 2 :], slice(None), slice(None))[:2]]
        return FactoredMatrix(self.A[lead][..., rows, :], self.B[lead][..., cols])


def _turned(x: Array) -> Array:
    return x.swapaxes(-2, -1)


def _broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else x.broadcast_to(shape)


def _linalg(x: Array) -> Any:
    if isinstance(x, np.ndarray):
        return np.linalg
    import torch

    return torch.linalg
