"""One training loop for all nets: batches of users, Adam, the best epoch on validation kept, resumable.

Problem   min over the parameters of a net of its mean loss per user; of all epochs the one with the best nDCG@100.
Cost      per epoch 6·n·(inner layers + m·width) flops; the input layer only gathers the rows of the items kept.
Equals    torch's Adam on dense batches: sparse rows only skip products with zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.baselines.nets.checkpoints import Checkpoint, Run
from offdiag.baselines.nets.early_stopping import Watched
from offdiag.errors import OffdiagError
from offdiag.lab import layers
from offdiag.progress import Progress
from offdiag.weights import Weights

if TYPE_CHECKING:
    from offdiag.baselines.nets.fitting import Neural


class Net(Protocol):
    """What the loop needs from a net. Parameters are torch tensors by name."""

    parameters: dict[str, Any]

    def loss(self, users: NDArray[np.int64], x: sparse.csr_array, rng: np.random.Generator, step: int) -> Any:
        """The mean loss over the users of a batch (rows of the data) at this step, a torch scalar to differentiate."""
        ...

    def network(self) -> Weights:
        """The network for scoring, which shares memory with the parameters where possible."""
        ...


def torch_or_error(name: str) -> Any:
    return layers.torch_or_error(
        f"{name} needs torch: pip install 'offdiag[neural]' (without a GPU: pip install torch==2.13.0 first)"
    )


def train(
    net: Net,
    matrix: sparse.csr_array,
    watched: Watched | None,
    settings: Neural,
    checkpoint: Checkpoint,
    progress: Progress | None,
) -> Run:
    """Train for ``epochs``, or until ``patience`` of them gain no nDCG; the net ends with the best parameters."""
    import torch

    optimiser = torch.optim.Adam(list(net.parameters.values()), lr=settings.learning_rate, fused=True)
    run = checkpoint.read() or Run()
    if run.epoch > settings.epochs:
        raise OffdiagError(
            f"the checkpoint has {run.epoch} epochs, more than the {settings.epochs} asked for; ask for as many, "
            "or give another path to start again"
        )
    if run.epoch:
        _restore(run, net, optimiser)
    while run.epoch < settings.epochs and not _patience_is_over(run, watched, settings.patience):
        rng = np.random.default_rng([settings.seed, run.epoch + 1])
        loss = _epoch(net, matrix, optimiser, rng, settings, run)
        run.epoch += 1
        run.losses.append(loss)
        run.parameters = {name: tensor.detach().numpy() for name, tensor in net.parameters.items()}
        if not np.isfinite(loss) or not all(np.isfinite(array).all() for array in run.parameters.values()):
            raise OffdiagError(
                f"training diverged at learning_rate={settings.learning_rate:g}; use a smaller one, "
                "or smaller values (od.prepare.binarize)"
            )
        stage = f"training · loss {loss:.6g}"
        if watched is not None:
            run.validation.append(watched.ndcg(net.network()))
            stage += f" · nDCG@100 {run.validation[-1]:.4f}"
            if run.best_epoch == 0 or run.validation[-1] > run.validation[run.best_epoch - 1]:
                run.best_epoch = run.epoch
                run.best = {name: array.copy() for name, array in run.parameters.items()}
        done = run.epoch == settings.epochs or _patience_is_over(run, watched, settings.patience)
        if checkpoint.path is not None:
            _take_moments(run, net, optimiser)
            checkpoint.write(run, last=done)
        if progress:
            progress(stage, 1.0 if done else run.epoch / settings.epochs)
    _assign(net, run.best or run.parameters)
    return run


def _patience_is_over(run: Run, watched: Watched | None, patience: int) -> bool:
    return watched is not None and run.epoch - run.best_epoch >= patience and run.epoch > 0


def _epoch(
    net: Net, matrix: sparse.csr_array, optimiser: Any, rng: np.random.Generator, settings: Neural, run: Run
) -> float:
    """The mean loss per user over one pass."""
    n, rows, total = matrix.shape[0], settings.batch_users, 0.0
    order = rng.permutation(n)
    for lo in range(0, n, rows):
        users = order[lo : lo + rows]
        optimiser.zero_grad(set_to_none=True)
        loss = net.loss(users, matrix[users], rng, run.steps)
        loss.backward()
        optimiser.step()
        run.steps += 1
        total += float(loss.detach()) * len(users) / n
    return total


def _assign(net: Net, arrays: dict[str, NDArray[np.float32]]) -> None:
    import torch

    with torch.no_grad():
        for name, tensor in net.parameters.items():
            tensor.copy_(torch.from_numpy(arrays[name]))


def _restore(run: Run, net: Net, optimiser: Any) -> None:
    import torch

    expected = {name: tuple(tensor.shape) for name, tensor in net.parameters.items()}
    for group in (run.parameters, run.means, run.squares, run.best or run.parameters):
        if {name: array.shape for name, array in group.items()} != expected:
            raise OffdiagError("the checkpoint does not fit this net; delete it, or give another path to start again")
    _assign(net, run.parameters)
    for name, tensor in net.parameters.items():
        optimiser.state[tensor] = {
            "step": torch.tensor(float(run.steps)),
            "exp_avg": torch.from_numpy(run.means[name]),
            "exp_avg_sq": torch.from_numpy(run.squares[name]),
        }


def _take_moments(run: Run, net: Net, optimiser: Any) -> None:
    states = {name: optimiser.state[tensor] for name, tensor in net.parameters.items()}
    run.means = {name: state["exp_avg"].numpy() for name, state in states.items()}
    run.squares = {name: state["exp_avg_sq"].numpy() for name, state in states.items()}


def drop_entries(x: sparse.csr_array, p: float, rng: np.random.Generator) -> sparse.csr_array:
    """Each entry dropped with probability p, the others divided by 1 − p: the mean over the draws is x."""
    if p == 0:
        return x
    factors = (rng.random(x.nnz, dtype=np.float32) >= p) / np.float32(1 - p)
    return sparse.csr_array((x.data * factors, x.indices, x.indptr), shape=x.shape)


def gather_rows(x: sparse.csr_array, W: Any) -> Any:
    """x W with the gradient for W: the rows of W at the items of x, weighted and summed per user; no dense x."""
    import torch

    return torch.nn.functional.embedding_bag(
        torch.from_numpy(x.indices.astype(np.int64)),
        W,
        torch.from_numpy(x.indptr[:-1].astype(np.int64)),
        mode="sum",
        per_sample_weights=torch.from_numpy(x.data.astype(np.float32)),
    )


def at_entries(scores: Any, x: sparse.csr_array) -> Any:
    """The scores at the entries of x, in their order."""
    import torch

    rows = np.repeat(np.arange(x.shape[0], dtype=np.int64), np.diff(x.indptr))
    return scores.reshape(-1).index_select(0, torch.from_numpy(rows * x.shape[1] + x.indices))


def glorot(rng: np.random.Generator, rows: int, columns: int) -> Any:
    """Uniform within ±√(6/(rows + columns)), as a parameter."""
    import torch

    limit = np.sqrt(6 / (rows + columns))
    return torch.from_numpy(rng.uniform(-limit, limit, (rows, columns)).astype(np.float32)).requires_grad_()


def zeros(size: int) -> Any:
    import torch

    return torch.zeros(size, requires_grad=True)
