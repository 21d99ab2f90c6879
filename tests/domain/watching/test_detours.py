"""Which pairs the ladder serves, and how, where no node serves them alone."""

import pytest

from lingua_scheduler.domain.pools.ladder import STRICT, LadderRules, Rung
from lingua_scheduler.domain.watching.detours import MAX_LANGUAGES, detour_of, possible_pairs
from lingua_scheduler.domain.watching.picture import DetourLook

ANY = LadderRules(("en",), text_fallback=True)


@pytest.mark.parametrize(
    ("served", "rules", "rung", "pivot"),
    [
        (("zh:en:text", "text/en:ja:speech"), ANY, Rung.PIVOT, "en"),
        (("zh:en:text", "text/en:ja:text"), ANY, Rung.TEXT_ONLY, "en"),
        (("zh:ja:text",), ANY, Rung.TEXT_ONLY, ""),
        (("zh:ja:text", "text/ja:ja:speech"), STRICT, Rung.SPLIT, ""),
    ],
)
def test_a_pair_takes_the_highest_rung_that_is_allowed(
    served: tuple[str, ...], rules: LadderRules, rung: Rung, pivot: str
) -> None:
    assert detour_of("zh", "ja", served.__contains__, rules) == DetourLook(src="zh", tgt="ja", rung=rung, pivot=pivot)


@pytest.mark.parametrize(
    ("served", "rules"),
    [
        (("zh:ja:speech", "zh:en:text", "text/en:ja:speech"), ANY),
        (("zh:en:text", "text/en:ja:speech", "zh:ja:text"), STRICT),
        ((), ANY),
    ],
)
def test_a_pair_that_one_node_serves_or_none_takes_no_detour(served: tuple[str, ...], rules: LadderRules) -> None:
    assert detour_of("zh", "ja", served.__contains__, rules) is None


def test_pairs_are_of_what_is_heard_into_what_is_written_and_bounded() -> None:
    named = ("zh:en:text", "text/en:ja:text", "text/ja:ja:speech")
    assert list(possible_pairs(named)) == [("zh", "en"), ("zh", "ja")]
    many = [f"{src}:{tgt}:text" for src in range(100) for tgt in range(100)]
    assert len(list(possible_pairs(many))) <= MAX_LANGUAGES**2
