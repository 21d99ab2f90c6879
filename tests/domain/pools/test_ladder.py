"""The ladder: which jobs an utterance needs, from what the pools serve."""

import pytest

from lingua_scheduler.domain.pools.ladder import LadderRules, Rung, StagePlan, plan_from_text, plan_of, shares_of
from lingua_scheduler.domain.pools.names import Pool

ANY = LadderRules(("en", "de"), text_fallback=True)


class Served:
    def __init__(self, *pools: str) -> None:
        self._pools = pools

    def __call__(self, pool: Pool) -> Pool | None:
        return pool if str(pool) in self._pools else None


def names(plan: StagePlan | None) -> list[str]:
    return [] if plan is None else [str(pool) for pool in plan.stages]


@pytest.mark.parametrize(
    ("served", "rung", "stages"),
    [
        (("zh:ja:speech", "zh:ja:text", "zh:zh:text", "text/zh:ja:speech"), Rung.WHOLE, ["zh:ja:speech"]),
        (("zh:ja:text", "text/ja:ja:speech", "zh:zh:text"), Rung.SPLIT, ["zh:ja:text", "text/ja:ja:speech"]),
        (("zh:zh:text", "text/zh:ja:speech", "text/zh:ja:text"), Rung.SPLIT, ["zh:zh:text", "text/zh:ja:speech"]),
        (
            ("zh:zh:text", "text/zh:ja:text", "text/ja:ja:speech"),
            Rung.SPLIT,
            ["zh:zh:text", "text/zh:ja:text", "text/ja:ja:speech"],
        ),
        (("zh:en:text", "text/en:ja:speech", "zh:ja:text"), Rung.PIVOT, ["zh:en:text", "text/en:ja:speech"]),
        (("zh:de:text", "text/de:ja:speech"), Rung.PIVOT, ["zh:de:text", "text/de:ja:speech"]),
        (
            ("zh:zh:text", "text/zh:en:text", "text/en:ja:text", "text/ja:ja:speech"),
            Rung.PIVOT,
            ["zh:zh:text", "text/zh:en:text", "text/en:ja:text", "text/ja:ja:speech"],
        ),
        (("zh:ja:text", "zh:zh:text"), Rung.TEXT_ONLY, ["zh:ja:text"]),
        (("zh:en:text", "text/en:ja:text"), Rung.TEXT_ONLY, ["zh:en:text", "text/en:ja:text"]),
    ],
)
def test_the_highest_rung_that_is_served_is_taken(served: tuple[str, ...], rung: Rung, stages: list[str]) -> None:
    plan = plan_of("zh", "ja", speaks=True, find=Served(*served), rules=ANY)
    assert plan is not None
    assert (plan.rung, names(plan)) == (rung, stages)


def test_what_is_not_allowed_is_not_done() -> None:
    by_pivot, written = Served("zh:en:text", "text/en:ja:speech"), Served("zh:ja:text")
    assert plan_of("zh", "ja", speaks=True, find=by_pivot) is None
    assert plan_of("zh", "ja", speaks=True, find=by_pivot, rules=LadderRules(("de", "ja", "zh"))) is None
    assert plan_of("zh", "ja", speaks=True, find=written) is None
    assert plan_of("zh", "ja", speaks=False, find=written) == StagePlan((Pool("zh", "ja", "text"),), Rung.WHOLE)


def test_a_plan_without_speech_by_a_third_language_names_both() -> None:
    plan = plan_of("zh", "ja", speaks=True, find=Served("zh:en:text", "text/en:ja:text"), rules=ANY)
    assert plan is not None
    assert (plan.rung, plan.pivot, plan.is_degraded) == (Rung.TEXT_ONLY, "en", True)


def test_text_in_its_own_language_needs_no_job_unless_it_is_spoken() -> None:
    voice = Served("text/zh:zh:speech")
    assert names(plan_from_text("zh", "zh", speaks=True, find=voice)) == ["text/zh:zh:speech"]
    assert plan_from_text("zh", "zh", speaks=False, find=Served()) == StagePlan((), Rung.WHOLE)
    assert plan_from_text("zh", "zh", speaks=True, find=Served()) is None


# Several languages

FROM_TEXT = ("zh:zh:text", "text/zh:en:speech", "text/zh:de:text")


def test_two_languages_share_a_recognition() -> None:
    shares = shares_of("zh", {"en": True, "de": False, "fr": True}, Served(*FROM_TEXT, "zh:fr:speech"), ANY)
    assert shares.recognition == Pool("zh", "zh", "text")
    assert {lang: names(plan) for lang, plan in shares.from_text.items()} == {
        "en": ["text/zh:en:speech"],
        "de": ["text/zh:de:text"],
    }
    assert {lang: names(plan) for lang, plan in shares.others.items()} == {"fr": ["zh:fr:speech"]}


@pytest.mark.parametrize(
    ("targets", "served"),
    [
        ({"en": True}, FROM_TEXT),
        ({"en": True, "fr": True}, FROM_TEXT),
        ({"en": True, "de": False}, FROM_TEXT[1:]),
    ],
)
def test_it_must_pay(targets: dict[str, bool], served: tuple[str, ...]) -> None:
    shares = shares_of("zh", targets, Served(*served), ANY)
    assert (shares.recognition, shares.from_text) == (None, {})
    assert shares.others.keys() == targets.keys()


def test_a_language_that_would_be_recognised_once_more_joins_the_others() -> None:
    served = Served(*FROM_TEXT, "text/en:ja:speech", "zh:en:text", "text/zh:en:text")
    shares = shares_of("zh", {"en": True, "de": False, "ja": True, "qq": True}, served, ANY)
    assert names(shares.from_text["ja"]) == ["text/zh:en:text", "text/en:ja:speech"]
    assert shares.from_text["ja"].rung is Rung.PIVOT
    assert shares.others == {"qq": None}
