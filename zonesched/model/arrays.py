"""Names for the column types of the host table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

RowSelection = slice | Ints
"""Selection of rows of a table: a slice, which makes columns views of the table, or row numbers."""
