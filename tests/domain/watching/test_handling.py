"""What people did about alarms, put onto the alarms."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.watching.handling import Handling, alarm_id, code_and_subject, handled
from tests.support.pictures import AT_MS, alarm

LOST = alarm("pair.lost", subject="en:ko", since_ms=AT_MS)


def after(**done: Any) -> Any:
    return handled([LOST], {"pair.lost/en:ko": Handling(AT_MS - 9, AT_MS)._replace(**done)}, AT_MS)


def test_an_alarm_that_nobody_handled_is_as_it_was_and_as_old_as_any_instance_knows() -> None:
    assert handled([LOST], {}, AT_MS) == [LOST]
    (found,) = after()
    assert (found.since_ms, found.acknowledged_at_ms, found.silenced_until_ms) == (AT_MS - 9, 0, 0)


@pytest.mark.parametrize(("known_ms", "since_ms"), [(AT_MS - 58_000, AT_MS - 20_000), (AT_MS - 5_000, AT_MS - 5_000)])
def test_a_silence_is_not_older_than_the_last_heartbeat(known_ms: int, since_ms: int) -> None:
    """The node was silent before too, in a former outage perhaps, and was heard since."""
    silent = alarm("node.silent", subject="n1", since_ms=AT_MS)
    silent = msgspec.structs.replace(silent, values={"node_id": "n1", "seen_at_ms": AT_MS - 20_000})
    (found,) = handled([silent], {"node.silent/n1": Handling(known_ms, AT_MS)}, AT_MS)
    assert found.since_ms == since_ms


def test_who_acknowledged_it_is_told() -> None:
    (found,) = after(acknowledged_at_ms=AT_MS - 1, by="ada")
    assert (found.acknowledged_at_ms, found.handled_by) == (AT_MS - 1, "ada")


def test_an_acknowledgement_from_before_the_alarm_became_critical_does_not_count_any_more() -> None:
    known = {"redis.full": Handling(AT_MS - 9, AT_MS, acknowledged_at_ms=AT_MS - 5, by="ada")}
    for worse_at_ms, shown in ((AT_MS - 4, (0, "")), (AT_MS - 5, (AT_MS - 5, "ada")), (0, (AT_MS - 5, "ada"))):
        full = msgspec.structs.replace(alarm("redis.full"), worse_since_ms=worse_at_ms)
        (found,) = handled([full], known, AT_MS)
        assert (found.acknowledged_at_ms, found.handled_by) == shown
    # Who silenced it is still told.
    silenced = {"redis.full": known["redis.full"]._replace(silenced_until_ms=AT_MS + 5)}
    full = msgspec.structs.replace(alarm("redis.full"), worse_since_ms=AT_MS - 4)
    (found,) = handled([full], silenced, AT_MS)
    assert (found.acknowledged_at_ms, found.handled_by) == (0, "ada")


@pytest.mark.parametrize(("until_ms", "shown_ms"), [(AT_MS + 1, AT_MS + 1), (AT_MS, 0)])
def test_a_silence_ends_by_itself(until_ms: int, shown_ms: int) -> None:
    (found,) = after(silenced_until_ms=until_ms)
    assert found.silenced_until_ms == shown_ms


def test_a_silence_on_a_code_holds_for_all_its_subjects() -> None:
    (found,) = handled([LOST], {"pair.lost": Handling(0, 0, silenced_until_ms=AT_MS + 5)}, AT_MS)
    assert found.silenced_until_ms == AT_MS + 5


def test_what_was_forgotten_is_not_shown_until_there_is_a_new_reason() -> None:
    assert after(forgotten_at_ms=AT_MS - 1) == []
    known = {"pair.lost/en:ko": Handling(AT_MS - 9, AT_MS, forgotten_at_ms=AT_MS - 5)}
    assert handled([LOST], known, AT_MS, {"pair.lost/en:ko": AT_MS - 6}) == []
    assert len(handled([LOST], known, AT_MS, {"pair.lost/en:ko": AT_MS - 5})) == 1


@pytest.mark.parametrize(
    ("code", "subject", "name"), [("redis.full", "", "redis.full"), ("node.lost", "a/b", "node.lost/a/b")]
)
def test_an_id_is_read_as_it_was_made(code: str, subject: str, name: str) -> None:
    assert alarm_id(code, subject) == name
    assert code_and_subject(name) == (code, subject)
