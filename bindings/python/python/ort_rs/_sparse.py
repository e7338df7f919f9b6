"""Sparse tensors, which are converted to dense ones for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _native
from ._enums import OrtSparseFormat


class SparseCooView:
    """The indices of a tensor in COO format."""

    def __init__(self, indices: np.ndarray) -> None:
        self._indices = indices

    def indices(self) -> np.ndarray:
        """A flat index for each value, or a row of coordinates."""
        return self._indices


class SparseCsrView:
    """The indices of a tensor in CSR format."""

    def __init__(self, inner: np.ndarray, outer: np.ndarray) -> None:
        self._inner, self._outer = inner, outer

    def inner(self) -> np.ndarray:
        """The column of each value."""
        return self._inner

    def outer(self) -> np.ndarray:
        """The start of each row in the values, and the end of the last."""
        return self._outer


class SparseTensor:
    """A sparse tensor in COO or CSR format, converted to a dense one for a run: no kernel computes with sparse
    values."""

    def __init__(self, dense: np.ndarray, values: np.ndarray, view: SparseCooView | SparseCsrView) -> None:
        self._array, self._values, self._view = dense, values, view

    @classmethod
    def sparse_coo_from_numpy(
        cls, dense_shape: Sequence[int] | np.ndarray, values: np.ndarray, coo_indices: np.ndarray, ort_device: Any
    ) -> SparseTensor:
        """From COO format: flat indices, or a row of coordinates for each value."""
        dense = np.zeros(tuple(dense_shape), values.dtype)
        indices = np.asarray(coo_indices)
        if indices.ndim not in (1, 2) or len(indices) != len(values):
            raise RuntimeError(f"{len(values)} values need as many indices, not indices of shape {indices.shape}")
        with _Fitting(dense, "indices"):
            if indices.ndim == 2:
                dense[tuple(indices.T)] = values
            else:
                dense.reshape(-1)[indices] = values
        return cls(dense, values, SparseCooView(indices))

    @classmethod
    def sparse_csr_from_numpy(
        cls, dense_shape: Sequence[int] | np.ndarray, values: np.ndarray, inner_indices: np.ndarray,
        outer_indices: np.ndarray, ort_device: Any,
    ) -> SparseTensor:
        """From CSR format."""
        dense = np.zeros(tuple(dense_shape), values.dtype)
        inner, outer = np.asarray(inner_indices), np.asarray(outer_indices)
        if dense.ndim != 2 or len(outer) != len(dense) + 1 or len(inner) != len(values):
            raise RuntimeError("a tensor in CSR format needs two dimensions, a column for each value, and an end for each row")
        with _Fitting(dense, "rows and columns"):
            dense[np.repeat(np.arange(len(outer) - 1), np.diff(outer)), inner] = values
        return cls(dense, values, SparseCsrView(inner, outer))

    def _dense(self) -> np.ndarray:
        return self._array

    def values(self) -> np.ndarray:
        """The elements that are stored."""
        return self._values

    def as_coo_view(self) -> SparseCooView:
        """The indices of a tensor in COO format."""
        if not isinstance(self._view, SparseCooView):
            raise RuntimeError(f"the tensor is not in COO format but {self.format().name}")
        return self._view

    def as_csrc_view(self) -> SparseCsrView:
        """The indices of a tensor in CSR format."""
        if not isinstance(self._view, SparseCsrView):
            raise RuntimeError(f"the tensor is not in CSR format but {self.format().name}")
        return self._view

    def as_blocksparse_view(self) -> Any:
        """Rejected: the block format is not supported."""
        raise RuntimeError(f"the tensor is not in block format but {self.format().name}")

    def to_cuda(self, ort_device: Any) -> SparseTensor:
        """Rejected: there is no such device."""
        raise RuntimeError("this build has no CUDA")

    def format(self) -> OrtSparseFormat:
        """The format it was created in."""
        is_coo = isinstance(self._view, SparseCooView)
        return OrtSparseFormat.ORT_SPARSE_COO if is_coo else OrtSparseFormat.ORT_SPARSE_CSRC

    def dense_shape(self) -> list[int]:
        """The dimensions of the dense tensor."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """The type, such as `sparse_tensor(float)`."""
        return "sparse_" + _native.OrtValue.from_array(self._array).data_type()

    def device_name(self) -> str:
        """`cpu`."""
        return "cpu"


class _Fitting:
    """Reports indices that are out of range."""

    def __init__(self, dense: np.ndarray, what: str) -> None:
        self._text = f"the {what} do not fit a tensor of shape {dense.shape}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (IndexError, ValueError)):
            raise RuntimeError(f"{self._text}: {error}") from error
