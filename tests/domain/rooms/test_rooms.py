from lingua_scheduler.domain.rooms.guests import GuestCount, GuestsAt
from lingua_scheduler.domain.rooms.rooms import (
    AboutMember,
    Participant,
    RoomName,
    RoomState,
    Stay,
    draw_code,
    is_code,
    shown_name,
    without_space,
)

JOINED_US = 1_767_225_600_123_456


def member(session_id: str, **about: object) -> Participant:
    return Participant(session_id, f"here 1-{session_id}", AboutMember(**about), JOINED_US)  # type: ignore[arg-type]


def room(*members: Participant) -> RoomState:
    return RoomState(RoomName("default", "483920"), "id", "record", 1, 0, False, members)


def test_a_code_has_six_digits_and_no_leading_zero() -> None:
    assert draw_code(lambda _: 0) == "100000"
    assert draw_code(lambda most: most - 1) == "999999"
    assert is_code("483920")
    assert not any(map(is_code, ("048392", "48392", "4839200", "48392a", "", "４８３９２０", "483920\n")))


def test_a_code_may_be_copied_with_its_space() -> None:
    assert [without_space(text) for text in ("483 920", " 483920 ", "483 92", "a b")] == [
        "483920",
        "483920",
        "483 92",
        "a b",
    ]


def test_a_name_fits_one_line() -> None:
    assert shown_name("  Bob\n\x00 the\tfirst ") == "Bob the first"
    assert shown_name("x" * 500) == "x" * 64
    assert shown_name(None) == ""


def test_the_time_of_joining_is_rfc_3339_with_nanoseconds() -> None:
    assert member("a").joined_at == "2026-01-01T00:00:00.123456000Z"


def test_the_host_is_the_first_member_and_the_next_one_succeeds() -> None:
    first, second = member("a"), member("b")
    assert room(first, second).host == first
    assert room(second).host == second
    assert room().host is None


def test_guests_are_counted_by_instance_and_language() -> None:
    guests = (GuestsAt("there", "1", {"en": GuestCount(2, 1)}), GuestsAt("far", "2", {"pt": GuestCount(0, 4)}))
    held = room(member("a"))._replace(guests=guests)
    assert held.hearing == {"there": {"en": (2, 1)}, "far": {"pt": (0, 4)}}
    assert held.guest_count == 7
    assert held.instances() == {"here", "there", "far"}


def test_wishes_are_shown_at_the_one_they_are_about() -> None:
    listener = member("b")._replace(wishes={"a": False, "gone": True})
    both = room(member("a"), listener)
    assert both.shown_wishes("a") == {"b": False}
    assert both.shown_wishes("b") == {}


def test_a_voice_passes_between_members_unless_the_listener_muted_it() -> None:
    both = room(member("a"), member("b")._replace(wishes={"a": False}))
    assert not both.carries_voice("a", "b")
    assert both.carries_voice("b", "a")
    assert not both.carries_voice("stranger", "a")
    assert not both.carries_voice("a", "stranger")
    assert not both.carries_voice("a", "a")


def test_browsers_that_are_there_offer_to_the_one_that_joins() -> None:
    there = room(member("a", offers_voice=True), member("b"), member("c", offers_voice=True))
    assert there.offering_to("c") == {"a"}
    assert there.instances() == {"here"}


def test_where_a_session_is_can_be_written_down() -> None:
    stay = Stay(RoomName.of("", "483920"), "7f3a", since=7)
    assert Stay.parse(str(stay)) == stay
    assert stay.name.tenant == "default"
    assert Stay.parse("") is None
    guest = stay._replace(guest=AboutMember(name="Zoë B", language="en", speech=False))
    assert Stay.parse(str(guest)) == guest
    assert Stay.parse(f"{stay} rubbish") is None
    assert Stay.parse(f"{stay.name} 7f3a") is None
    assert Stay.parse(f"{stay.name} 7f3a soon") is None


def test_any_tenant_can_be_part_of_a_key() -> None:
    assert str(RoomName.of("acme", "483920")) == "acme:483920"
    strange = RoomName.of("a}b c:\n", "483920")
    assert not set("{} \n") & set(str(strange))
    assert RoomName.parse(str(strange)) == strange
    assert strange != RoomName.of("a}b c", "483920")
