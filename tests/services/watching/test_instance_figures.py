"""The figures that an instance publishes: each from where it is counted, and lists no longer than others can read."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.watching.figures import NAMED_MAX
from lingua_scheduler.domain.watching.pair_work import PairWork
from lingua_scheduler.services.attempts.counts import AskedFor
from lingua_scheduler.services.watching.instance_figures import Teller
from tests.support.pictures import job

SESSIONS = [
    (("en-US:zh:speech", "zh:en:speech"), Whose()),
    (("en:zh:speech",), Whose("beta")),
]


class Counted:
    """Something with a length and other attributes."""

    def __init__(self, length: int, **more: Any) -> None:
        self._length = length
        self.__dict__ |= more

    def __len__(self) -> int:
        return self._length


OURS = Whose("acme")


COST = PairWork(1, 1, 400, 2_000, 400)


def asked_once() -> list[AskedFor]:
    pools = ("en-US:zh:speech", "en:zh:speech", "de:fr:text")
    return [*(AskedFor((pool,), Whose(), COST) for pool in pools), AskedFor(("ko:pt:speech",), OURS, COST)]


def teller(**changes: Any) -> Teller:
    books = SimpleNamespace(
        take_asked=asked_once,
        jobs_ended={"DONE": 4},
        failed_for={"NO_CAPABLE_NODE": 2},
        latency=SimpleNamespace(counts=[1, 2]),
        slow=[job("j-slow")],
        failures=[job("j-failed")],
    )
    parts: dict[str, Any] = {
        "life": "life-1",
        "books": books,
        "dispatcher": SimpleNamespace(retries_made=5),
        "sessions": Counted(2, languages={"en→zh": 2}, pools=SESSIONS),
        "connected": SimpleNamespace(
            links=Counted(3), departures=SimpleNamespace(goodbyes=[f"n{i}" for i in range(NAMED_MAX + 1)])
        ),
        "waiting": Counted(6, by_pool=lambda: {"en:zh:speech": 4, "de:fr:text": 2, "ko:pt:speech@acme": 1}),
        "languages": SimpleNamespace(
            nearest=lambda pool: pool.replace("en-US", "en"),
            # What private nodes serve is not told to others.
            is_served_privately=lambda _pools, whose: whose is OURS,
        ),
    }
    return Teller(**cast("Any", parts | changes))


def test_every_figure_comes_from_where_it_is_counted() -> None:
    told = teller().figures()
    assert (told.life, abs(told.at_ms - time.time() * 1000) < 60_000) == ("life-1", True)
    assert (told.sessions, told.session_languages) == (2, {"en→zh": 2})
    # As nodes name the languages, each once.
    assert (told.wanted, told.asked) == (["en:zh:speech", "zh:en:speech"], ["de:fr:text", "en:zh:speech"])
    # By the names that nodes use, and without what private nodes serve.
    assert told.work == {"en:zh": COST.plus(COST), "de:fr": COST}
    assert list(told.waiting.items()) == [("de:fr:text", 2), ("en:zh:speech", 4)]
    assert (told.nodes, told.jobs_waiting, told.retries) == (3, 6, 5)
    assert told.failed_for == {"NO_CAPABLE_NODE": 2}
    assert (told.jobs_ended, told.latency) == ({"DONE": 4}, [1, 2])
    assert ([one.job_id for one in told.slow], [one.job_id for one in told.failures]) == (["j-slow"], ["j-failed"])
    # The latest of them.
    assert (len(told.goodbyes), told.goodbyes[0]) == (NAMED_MAX, "n1")


def test_a_certificate_that_ends_or_cannot_be_renewed_is_told() -> None:
    told = teller()
    assert (told.figures().certificate_ends_ms, told.figures().is_certificate_refused) == (0, False)
    told.certificate = SimpleNamespace(ends_soon_ms=7, failure="no such file")
    assert (told.figures().certificate_ends_ms, told.figures().is_certificate_refused) == (7, True)


def test_what_jobs_cost_is_counted_on_from_look_to_look_by_the_first_of_their_pairs() -> None:
    both_ways = AskedFor(("en:zh:speech", "zh:en:speech"), Whose(), COST)
    found = teller()
    found._books = cast("Any", SimpleNamespace(**vars(found._books) | {"take_asked": lambda: [both_ways]}))
    assert found.figures().work == {"en:zh": COST}
    assert found.figures().work == {"en:zh": COST.plus(COST)}


def test_of_many_credentials_the_first_to_end_are_told_and_of_many_guesses_the_most() -> None:
    told = teller()
    told.expiring = lambda: {f"k{i:04}": 9_000 - i for i in range(NAMED_MAX + 1)}
    told.guessing = lambda: {f"a{i:04}": i for i in range(NAMED_MAX + 1)}
    figures = told.figures()
    assert list(figures.expiring) == [f"k{i:04}" for i in range(NAMED_MAX, 0, -1)]
    assert list(figures.guessing) == [f"a{i:04}" for i in range(NAMED_MAX, 0, -1)]


def test_lists_are_bounded() -> None:
    many = [f"l{i:04}:zh:speech" for i in range(NAMED_MAX + 1)]
    told = teller(
        sessions=Counted(1, languages={}, pools=[(many, Whose())]),
        waiting=Counted(1, by_pool=lambda: dict.fromkeys(many, 1)),
    ).figures()
    assert told.wanted == many[:NAMED_MAX]
    assert list(told.waiting) == many[:NAMED_MAX]


@pytest.mark.parametrize("is_watched", [True, False])
def test_whether_somebody_watches_is_told(is_watched: bool) -> None:
    found = teller()
    assert not found.figures().is_watched
    found.is_watched = lambda: is_watched
    assert found.figures().is_watched is is_watched
