"""The shapes of W. All support ``X @ W`` and yield the scores of many users tile by tile, never all at once."""

from offdiag.weights.attention import SelfAttention as SelfAttention
from offdiag.weights.blended import Blended as Blended
from offdiag.weights.compressed import Compressed as Compressed
from offdiag.weights.constant import Constant as Constant
from offdiag.weights.dense import Dense as Dense
from offdiag.weights.grouped import Grouped as Grouped
from offdiag.weights.grown import Grown as Grown
from offdiag.weights.implicit_factors import ImplicitFactors as ImplicitFactors
from offdiag.weights.low_rank import LowRank as LowRank
from offdiag.weights.networks import Network as Network
from offdiag.weights.packed import Packed as Packed
from offdiag.weights.protocol import Scorer as Scorer
from offdiag.weights.protocol import Tile as Tile
from offdiag.weights.protocol import Weights as Weights
from offdiag.weights.signed import Signed as Signed
from offdiag.weights.sparse import Sparse as Sparse
from offdiag.weights.sparse_low_rank import Smoothed as Smoothed
from offdiag.weights.symmetric import Symmetric as Symmetric
from offdiag.weights.tiles import KINDS as KINDS
from offdiag.weights.tiles import USERS_AT_ONCE as USERS_AT_ONCE
