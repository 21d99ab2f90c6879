"""Which pairs are wanted, and for how long."""

import pytest

from lingua_scheduler.domain.watching.demand import (
    ASKED_MS,
    HISTORY_MS,
    MISSED_MS,
    Demand,
    expected_pools,
    is_listable,
    wanted_pools,
)
from tools.docs import DOCS

AT_MS = 10 * HISTORY_MS
POOL, OTHER = "en:ko:speech", "en:pt:text"


@pytest.mark.parametrize(
    ("demand", "listed", "expected"),
    [
        (Demand(), (), set()),
        (Demand(asked={POOL: AT_MS - ASKED_MS + 1}), (), {POOL}),
        (Demand(asked={POOL: AT_MS - ASKED_MS}), (), set()),
        (Demand(asked={POOL: AT_MS - ASKED_MS}), ("history",), {POOL}),
        (Demand(asked={POOL: AT_MS - HISTORY_MS}), ("history",), set()),
        # Somebody asked once for what was never there.
        (Demand(missed={POOL: AT_MS - MISSED_MS + 1}), (), {POOL}),
        (Demand(missed={POOL: AT_MS - MISSED_MS}), ("history",), set()),
        (Demand(), ("en:ko",), {POOL}),
        (Demand(), ("en:ko", "en:pt:text"), {POOL, OTHER}),
    ],
)
def test_what_is_wanted(demand: Demand, listed: tuple[str, ...], expected: set[str]) -> None:
    assert wanted_pools(demand, listed, AT_MS) == expected


def test_pairs_are_wanted_for_as_long_as_the_page_says() -> None:
    minute_ms = 60_000
    assert (60 * minute_ms, 10 * minute_ms, 7 * 24 * 60 * minute_ms) == (ASKED_MS, MISSED_MS, HISTORY_MS)
    page = " ".join((DOCS / "watching.md").read_text("utf-8").split())
    assert "asked for it in the last hour. If no node has served it when it was asked for, ten minutes" in page
    assert "were served and asked for in the last seven days are wanted" in page


def test_what_was_never_served_is_expected_only_if_it_is_listed() -> None:
    demand = Demand(asked={POOL: AT_MS}, missed={OTHER: AT_MS})
    assert expected_pools(demand, ("history",)) == {POOL}
    assert expected_pools(demand, ("en:pt:text",)) == {POOL, OTHER}


@pytest.mark.parametrize("text", ["en:pt", "en:pt:text", "en:pt:speech", "zh-Hans:pt-BR", "history"])
def test_what_may_be_listed(text: str) -> None:
    assert is_listable(text)


@pytest.mark.parametrize("text", ["", "en", "en:", ":pt", "en:pt:song", "en pt", "en→pt", "EN:PT", "all"])
def test_what_may_not(text: str) -> None:
    assert not is_listable(text)
