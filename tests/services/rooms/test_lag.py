"""The lag of each language: in a metric with few labels, and for the last minutes in the picture."""

from lingua_scheduler.domain.watching.figures import OTHER
from lingua_scheduler.domain.watching.rooms import LANGUAGES_MAX, dense
from lingua_scheduler.services.rooms.lag import WINDOW_S, RoomLag
from lingua_scheduler.telemetry import metrics


class Now:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def observed(language: str) -> float:
    samples = [sample for family in metrics.ROOM_LAG.collect() for sample in family.samples]
    return sum(one.value for one in samples if one.name.endswith("_count") and one.labels["language"] == language)


def test_each_language_is_counted_for_a_minute_or_two() -> None:
    now = Now()
    lag = RoomLag(now)
    before = observed("ja")
    lag.note_lag("ja", 1.5)
    now.s += WINDOW_S
    lag.note_lag("ja", 1.5)
    lag.note_lag("en", 0.5)
    assert {language: len(dense(counts)) for language, counts in lag.lately().items()} == {"en": 1, "ja": 2}
    now.s += WINDOW_S
    assert {language: len(dense(counts)) for language, counts in lag.lately().items()} == {"en": 1, "ja": 1}
    now.s += 2 * WINDOW_S
    assert lag.lately() == {}
    assert observed("ja") == before + 2


def test_what_is_no_language_and_what_is_too_much_are_others() -> None:
    lag = RoomLag(Now())
    before = observed(OTHER)
    lag.note_lag("not a language!", 1.0)
    for number in range(LANGUAGES_MAX + 3):
        lag.note_lag(f"a{chr(97 + number // 26)}{chr(97 + number % 26)}", 1.0)
    assert len(lag.lately()) == LANGUAGES_MAX + 1
    assert observed(OTHER) == before + 4
