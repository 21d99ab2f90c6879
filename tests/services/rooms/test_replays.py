"""What is kept for listeners who come back."""

from lingua_scheduler.domain.rooms.feeds import RoomUtterance
from lingua_scheduler.protocol.bus import RoomSaid
from lingua_scheduler.services.rooms.replays import ENVELOPE_BYTES, Replays
from tests.support.clocks import Clock


def said(seq: int, language: str = "zh", room_id: str = "r", size: int = 10) -> RoomSaid:
    return RoomSaid("default:483920", room_id, RoomUtterance(seq, "s", seq, "en", (language,)), language, b"x" * size)


def test_what_was_said_since_is_given_in_order() -> None:
    replays = Replays(100_000, 60)
    for one in (said(3), said(1), said(2), said(2, "pt"), said(2, room_id="other")):
        replays.add(one)
    assert [one.utterance.seq for one in replays.since("r", 1, 8)] == [2, 2, 3]
    assert [one.utterance.seq for one in replays.since("r", 0, 2)] == [2, 3]
    assert replays.since("r", 3, 8) == []


def test_the_same_is_kept_once() -> None:
    replays = Replays(100_000, 60)
    replays.add(said(1))
    replays.add(said(1))
    assert (len(replays), replays.held_bytes) == (1, ENVELOPE_BYTES + 10)


def test_the_oldest_are_forgotten_when_there_is_too_much() -> None:
    replays = Replays(2 * ENVELOPE_BYTES + 25, 60)
    for seq in (1, 2, 3):
        replays.add(said(seq))
    assert [one.utterance.seq for one in replays.since("r", 0, 8)] == [2, 3]
    assert replays.held_bytes == 2 * ENVELOPE_BYTES + 20


def test_what_is_too_old_is_not_given_and_forgotten_with_the_next() -> None:
    clock = Clock()
    replays = Replays(100_000, 60, lambda: clock() / 1000)
    replays.add(said(1))
    clock.pass_ms(61_000)
    assert replays.since("r", 0, 8) == []
    replays.add(said(2))
    assert len(replays) == 1
