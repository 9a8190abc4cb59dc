"""G → W: arrays in, arrays out. Nothing here knows about ids, users or files."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
