from collections import Counter

from lingua_scheduler.domain.rooms.guests import GuestCount, GuestsAt, counted


def test_guests_are_counted_by_language_and_wish() -> None:
    wants = Counter({("pt", True): 2, ("en", False): 1, ("pt", False): 3, ("ja", True): 0})
    found = counted(wants)
    assert found == {"en": GuestCount(0, 1), "pt": GuestCount(2, 3)}
    assert found["pt"].total == 5
    assert counted({}) == {}


def test_counts_are_written_and_read_again() -> None:
    guests = GuestsAt("i-here", "7", {"zh-Hans": GuestCount(1, 0), "en": GuestCount(2, 3)})
    assert str(guests) == "6 en=2+3 zh-Hans=1+0"
    assert GuestsAt.parse(guests.holder, str(guests)) == guests
    assert guests.holder == "i-here 7"
    assert str(GuestsAt("i-here", "7")) == ""


def test_what_cannot_be_read_counts_as_none() -> None:
    assert GuestsAt.parse("i-here 7", "rubbish en=x+1").total == 0
    assert GuestsAt.parse("", "").instance == ""
