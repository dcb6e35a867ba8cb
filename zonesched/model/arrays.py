"""Names for the column types of the host table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

RowSelection = slice | Ints
"""Which rows of a table: a slice (columns are then views of it) or row numbers."""
