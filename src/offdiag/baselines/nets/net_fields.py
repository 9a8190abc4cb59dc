"""Settings that the nets share."""

from functools import partial

from offdiag.models import fields

dropout = partial(
    fields.dropout, default=0.5, auto=False, search=fields.Range(0.2, 0.9),
    help="Share of each history that is hidden while learning. Every epoch hides different entries.",
)  # fmt: skip
l2 = partial(fields.l2, default=0.0, auto=False, search=None, help="Penalty on the squares of all weights, per user.")
rank = partial(fields.rank, search=None, help="Units of the middle layer.")
width = fields.shared(600, low=1, help="Units of a hidden layer.")
depth = fields.shared(0, low=0, help="Number of hidden layers before the middle one, and after it.")
epochs = fields.shared(200, low=1, help="Passes over all users. Training may end earlier, see patience.")
batch_users = fields.shared(100, low=1, help="Number of users in one step of the optimiser.")
learning_rate = fields.shared(
    1e-3, low=0, above=True, high=1000, search=fields.Range(3e-4, 5e-3, log=True),
    help="Learning rate of Adam. Too large a value makes the training diverge, which is reported.",
)  # fmt: skip
