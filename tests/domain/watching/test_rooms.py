"""Rooms of all instances together, each room and person counted once."""

from lingua_scheduler.domain.watching.latency import LatencyTally
from lingua_scheduler.domain.watching.picture import RoomsLook
from lingua_scheduler.domain.watching.rooms import LANGUAGES_MAX, RoomFigures, dense, rooms_look, sparse


def tally(*each_ms: float) -> LatencyTally:
    found = LatencyTally()
    for ms in each_ms:
        found.add(ms)
    return found


def test_no_figures_are_no_rooms() -> None:
    assert rooms_look([]) == rooms_look([RoomFigures()]) == RoomsLook()


def test_what_instances_tell_is_summed() -> None:
    one = RoomFigures(rooms=1, members=2, guests=1, languages={"en": 1, "ja": 1}, lag={"ja": sparse(tally(100, 100))})
    other = RoomFigures(
        rooms=2, members=3, languages={"ja": 3}, lag={"ja": sparse(tally(5_000)), "en": sparse(tally(9))}
    )
    found = rooms_look([one, other])
    assert (found.rooms, found.members, found.guests) == (3, 5, 1)
    assert found.languages == {"ja": 4, "en": 1}
    assert 95 < found.lag_p50_ms["ja"] < 105
    assert 4_800 < found.lag_p95_ms["ja"] < 5_200
    assert found.lag_p50_ms["en"] == found.lag_p95_ms["en"]


def test_a_tally_is_the_same_after_the_way_and_another_releases_steps_do_no_harm() -> None:
    told = tally(1, 250, 250, 1e9)
    assert dense(sparse(told)).counts == told.counts
    assert len(dense({-1: 5, 100_000: 5, 3: -2})) == 0


def test_languages_have_a_limit() -> None:
    many = RoomFigures(languages={f"x{number}": number for number in range(2 * LANGUAGES_MAX)})
    assert len(rooms_look([many]).languages) == LANGUAGES_MAX
