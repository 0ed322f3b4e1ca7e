"""Topics in any order, and their sums."""

from __future__ import annotations

from typing import Literal

from tidelog.calls.transaction_list import TransactionListCalls
from tidelog.http.transport import target
from tidelog.types.topic_summary import SummaryOrder, TopicSummaries


class TopicSummaryCalls(TransactionListCalls):
    """Calls of ``Admin`` about the figures of many topics."""

    def summarize_topics(
        self,
        search: str | None = None,
        *,
        sort: SummaryOrder = "name",
        descending: bool = False,
        skip: int = 0,
        limit: int = 100,
        unread: bool = False,
        group: str | None = None,
        activity: Literal["hour", "day"] | None = None,
    ) -> TopicSummaries:
        """Return a page of topics in any order, and the sums of all topics of the filter.

        The order and the sums are those of the gateway's last looks at the topics; ``total.looked_at`` counts them.

        Args:
            search: only topics whose name contains it, ignoring case.
            sort, descending: order of the topics.
            skip, limit: how many topics of that order come before the page, and how many it has (0 to 1,000).
            unread: only topics that no group reads.
            group: only topics that this group reads.
            activity: also count each topic's records by steps of the last hour or day.

        Only topics and groups that the caller may describe are shown and counted. Raises ``ValueError`` for ``unread`` with
        ``group``, ``RequestRefused`` for a number out of range, and for a filter that selects more than 50,000 topics.
        """
        if unread and group is not None:
            raise ValueError("unread and group exclude each other: a topic that no group reads is read by none.")
        where = target(
            "topics",
            action="summary",
            search=search,
            sort=sort,
            order="desc" if descending else "asc",
            skip=skip,
            limit=limit,
            read="none" if unread else "by" if group is not None else None,
            group=group,
            activity=activity,
        )
        return self._get(where).decode(TopicSummaries)
