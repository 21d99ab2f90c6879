"""The one sentence somebody on call reads first."""

import pytest

from lingua_scheduler.domain.watching.picture import Level
from lingua_scheduler.domain.watching.verdict import verdict, worst_first
from tests.support.watched import AT_MS, alarm, moment, picture

LOST = [alarm("pair.lost", Level.CRITICAL, name) for name in ("a:b", "c:d", "e:f", "g:h", "i:j")]


def test_without_alarms_all_is_well() -> None:
    assert verdict(picture()) == (None, "All is well: people are being translated.")
    assert verdict(picture(now=moment(sessions=0, done_per_s=0.0))) == (None, "All is well, and nobody is talking.")


@pytest.mark.parametrize("ended", ["done_per_s", "no_text_per_s", "failed_per_s", "cancelled_per_s"])
def test_whoever_talked_a_moment_ago_is_talking(ended: str) -> None:
    now = moment(AT_MS, **({"sessions": 0, "done_per_s": 0.0} | {ended: 0.07}))
    assert verdict(picture(now=now)).text == "All is well: people are being translated."


def test_a_notice_spoils_nothing_but_is_not_hidden() -> None:
    level, text = verdict(picture(alarms=[alarm("pair.thin", Level.NOTICE, "en:zh")]))
    assert level is Level.NOTICE
    assert text.startswith("All is well")


def test_warnings_are_counted() -> None:
    warnings = [alarm("node.silent", Level.WARNING, name) for name in ("a", "b")]
    assert verdict(picture(alarms=warnings[:1])).text == "People are being translated; 1 thing needs a look."
    assert verdict(picture(alarms=warnings)) == (Level.WARNING, "People are being translated; 2 things need a look.")


def test_lost_pairs_are_named_and_the_rest_counted() -> None:
    unnamed = alarm("pair.lost", Level.CRITICAL, values={"more": 40})
    level, text = verdict(picture(alarms=[*LOST, unnamed]))
    assert level is Level.CRITICAL
    assert text == "Some people cannot be translated: no node serves a:b, c:d and 43 more."


def test_the_worst_is_said_first() -> None:
    none = alarm("nodes.none", Level.CRITICAL)
    assert verdict(picture(alarms=[*LOST, none])).text == "Nobody can be translated: no node takes work."


def test_redis_away_is_critical_even_when_no_alarm_says_so() -> None:
    assert verdict(picture(is_stale=True)) == (Level.CRITICAL, "Nobody can be translated: Redis is away.")


def test_a_critical_alarm_of_the_future_speaks_for_itself() -> None:
    unknown = alarm("moon.fell", Level.CRITICAL, text="The moon fell. Look up.")
    assert verdict(picture(alarms=[unknown])).text == "The moon fell. Look up."


def test_of_equal_alarms_the_latest_is_first() -> None:
    warnings = [alarm("a", Level.WARNING, since_ms=1), alarm("b", Level.WARNING, since_ms=2)]
    notice = alarm("c", Level.NOTICE, since_ms=3)
    assert [found.code for found in worst_first([notice, *warnings])] == ["b", "a", "c"]
