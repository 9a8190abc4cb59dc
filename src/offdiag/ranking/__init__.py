"""Weights and histories in, ranked lists and reasons out: recommend, similar, explain."""

from offdiag.ranking.explanation import Explanation as Explanation
from offdiag.ranking.explanation import explain as explain
from offdiag.ranking.histories import Entries as Entries
from offdiag.ranking.histories import choose_histories as choose_histories
from offdiag.ranking.histories import encode as encode
from offdiag.ranking.histories import rows as rows
from offdiag.ranking.question import Question as Question
from offdiag.ranking.question import ask as ask
from offdiag.ranking.question import recommend as recommend
from offdiag.ranking.question import write as write
from offdiag.ranking.recency import Recency as Recency
from offdiag.ranking.recency import checked_recency as checked_recency
from offdiag.ranking.similar_items import similar as similar
from offdiag.ranking.unknown_ids import report_unknown as report_unknown
from offdiag.weights.heaps import top_k as top_k
