"""Lists of recommendations, of anything that can ``ask``: a model, or a model whose lists are reranked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from offdiag import ranking
from offdiag.data.catalogue import Catalogue, with_titles
from offdiag.data.columns import Roles
from offdiag.models.source import read_histories
from offdiag.progress import Progress, reporter

if TYPE_CHECKING:
    from offdiag.list_files import Written
    from offdiag.recommendations import Recommendations


class Lists:
    """``recommend`` and ``recommend_to``, for a class with an ``ask``."""

    knows_order: ClassVar[bool] = False  # it learns from, and recommends for, histories in order
    history_decay_: float | None = None  # how a history fades unless the caller says otherwise, in a linear model
    columns_: Roles | None = None  # of the table that was learned from; tables of histories are read the same way

    @property
    def reads_order(self) -> bool:
        """Whether the order of a history matters to a list."""
        return self.knows_order or self.history_decay_ is not None

    @property
    def catalogue_(self) -> Catalogue | None:
        """The products whose columns are shown with the items."""
        return None

    def ask(self, k: int, **words: Any) -> ranking.Question:
        raise NotImplementedError

    def recommend(
        self,
        histories: Any = None,
        k: int = 10,
        *,
        users: Any = None,
        data: Any = None,
        disliked: Any = None,
        exclude_seen: bool = True,
        allow: Any = None,
        block: Any = None,
        strict: bool = False,
        reasons: bool = False,
        one_per_group: bool = False,
        new_places: int = 0,
        history_decay: float | None = None,
        history_half_life: float | None = None,
    ) -> Recommendations:
        """The k best items for each history (rows of a matrix, Interactions, or lists of item ids).

        Or for ``users``, a list of ids, whose histories are in ``data`` (Interactions); an unknown id is an error. Both
        may also be a table of events, which is read with the columns of the fit, or else those called user and item.
        ``allow`` and ``block`` are lists of item ids; ``block`` may also be a table with the columns user and item
        (a data frame or Interactions) of what single users must not get. ``reasons=True`` also finds the item of the
        history that adds most to each score, and its share of all that is added. ``one_per_group=True`` lists only the
        best item of each group: those of the fit, or else of the catalogue (docs/groups.md). With ``new_places=n`` the
        last places of a list go to the best items of ``add_items``, until it has n of them (docs/features.md).

        ``disliked`` holds a list of ids for each history (Interactions may have ``dislikes`` of their own). They are
        never recommended; a model that was fitted with ``dislike_weight`` also learns from them (docs/dislikes.md).

        Recent choices can count for more, with any linear model: ``history_decay`` is what a choice counts for compared
        with the one after it, in (0, 1], and ``history_half_life`` is the age at which it counts half. Histories then
        have an order: lists of ids, latest last; lists of (id, time) pairs; or Interactions with times or events. Age
        is counted from the last choice of the history, in the unit of the times, which is seconds if they are dates.

        A list is shorter than k only when no more items are left: ``.lengths`` holds their lengths, and the places
        after the end are masked. Ids that are not in the catalogue are ignored, listed in ``.unknown`` and warned
        about; ``strict=True`` makes them an error. An empty history gets the popular items. ``.to_polars()``,
        ``.to_pandas()``, ``.to_arrow()`` and ``.to_dicts()`` give tables.

        Example:
            >>> import offdiag as od
            >>> import numpy as np
            >>> model = od.EASE(l2=1.0).fit(np.array([[1, 1, 0], [1, 0, 1]]))
            >>> [pairs[0][0] for pairs in model.recommend([[1], [2]], k=1)]
            [0, 0]
            >>> inter = od.read(np.array([[1, 0, 0], [0, 0, 1]]), user_ids=["ann", "bob"])
            >>> model.recommend(users=["bob"], data=inter, k=1).to_dicts()[0]["user"]
            'bob'
            >>> visits = [[(1, "2026-03-01"), (2, "2026-03-08")]]
            >>> model.recommend(visits, k=1, history_half_life=7 * 86_400).items.tolist()  # a week
            [[0]]
        """
        question = self.ask(
            k, exclude_seen=exclude_seen, allow=allow, block=block, strict=strict, with_reasons=reasons,
            one_per_group=one_per_group, new_places=new_places, history_decay=history_decay,
            history_half_life=history_half_life,
        )  # fmt: skip
        ordered = question.recency is not None
        chosen = self._chosen(histories, users, data, ordered)
        lists = ranking.recommend(question, chosen, strict=strict, disliked=disliked)
        return lists.with_catalogue(self.catalogue_)

    def recommend_to(
        self,
        path: str | os.PathLike[str],
        histories: Any = None,
        k: int = 10,
        *,
        users: Any = None,
        data: Any = None,
        disliked: Any = None,
        exclude_seen: bool = True,
        allow: Any = None,
        block: Any = None,
        strict: bool = False,
        reasons: bool = False,
        one_per_group: bool = False,
        new_places: int = 0,
        titles: Mapping[Any, str] | None = None,
        columns: Sequence[str] = ("title",),
        rows_per_file: int | None = None,
        history_decay: float | None = None,
        history_half_life: float | None = None,
        progress: Progress | bool | None = None,
    ) -> Written:
        """``recommend`` to a file, for any number of users: the lists are written as they are made.

        ``path`` ends in .parquet, .csv, .jsonl or .ndjson. The columns are user, rank, item, title (of the catalogue
        or of ``titles``, a dict by item id), score, and with ``reasons=True`` reason and reason_share; ``columns``
        names others of the catalogue, such as ("title", "price"). The file appears when it is complete; with
        ``rows_per_file``, ``path`` is a new folder of files part-00000, part-00001, … What
        was written, and what was left out, is counted in the result.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> od.EASE(l2=10.0).fit(X).recommend_to("top.jsonl", X, k=5).n_rows
            1500
        """
        question = self.ask(
            k, exclude_seen=exclude_seen, allow=allow, block=block, strict=strict, with_reasons=reasons,
            one_per_group=one_per_group, new_places=new_places, history_decay=history_decay,
            history_half_life=history_half_life,
        )  # fmt: skip
        return ranking.write(
            question, self._chosen(histories, users, data, question.recency is not None), path,
            rows_per_file=rows_per_file, catalogue=with_titles(self.catalogue_, titles), columns=columns,
            strict=strict, disliked=disliked, progress=reporter(progress),
        )  # fmt: skip

    def _read(self, histories: Any, ordered: bool = False) -> Any:
        """Histories of any form; of a table every row, if their order matters."""
        return read_histories(histories, self.columns_, "events" if ordered or self.reads_order else "pairs")

    def _chosen(self, histories: Any, users: Any, data: Any, ordered: bool) -> Any:
        """The histories, or those of some users of the data."""
        histories, data = (self._read(some, ordered) for some in (histories, data))
        return ranking.choose_histories(histories, users, data)
