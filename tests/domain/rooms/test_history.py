from lingua_scheduler.domain.rooms.history import MAX_ROOM_BYTES, PastLine, RoomPast, RoomPasts


def said(seq: int, text: str = "said", **translations: str) -> PastLine:
    return PastLine(session_id="s", at_ms=1000 + seq, text=text, lang="zh", seq=seq, translations=translations)


def written(at_ms: int, text: str = "written", session_id: str = "s") -> PastLine:
    return PastLine(session_id=session_id, at_ms=at_ms, text=text)


def texts(past: RoomPast, before_s: float = float("inf")) -> list[str]:
    return [line.text for line in past.lines(before_s)]


def test_translations_of_one_line_come_one_after_the_other() -> None:
    pasts, past = RoomPasts(60, 10_000_000), RoomPast()
    first = said(1, "", pt="dito")
    assert pasts.add(past, [first], 1.0) == [first]
    assert pasts.add(past, [said(1, "said", ja="言った")], 2.0) == []
    (line,) = past.lines()
    assert (line.text, line.translations) == ("said", {"pt": "dito", "ja": "言った"})
    assert line.text_in("pt") == ("dito", "pt")
    assert line.text_in("fr") == ("said", "zh")
    # A variant of it was served by this tag.
    assert line.text_in("pt-BR") == ("dito", "pt")
    assert first.translations == {"pt": "dito"}
    assert past.size == line.size()


def test_lines_are_in_the_order_they_were_said_and_each_is_there_once() -> None:
    pasts, past = RoomPasts(60, 10_000_000), RoomPast()
    for line in (written(5, "third"), written(3, "first"), written(3, "second", "other"), written(5, "third")):
        pasts.add(past, [line], 1.0)
    assert texts(past) == ["first", "second", "third"]


def test_what_came_later_can_be_left_out() -> None:
    pasts, past = RoomPasts(60, 10_000_000), RoomPast()
    pasts.add(past, [written(1, "before")], 1.0)
    pasts.add(past, [written(2, "after")], 2.0)
    assert texts(past, 1.5) == ["before"]


def test_lines_are_forgotten_after_a_while() -> None:
    pasts, past = RoomPasts(60, 10_000_000), RoomPast()
    pasts.add(past, [written(1)], 1.0)
    pasts.add(past, [written(2, "later")], 50.0)
    pasts.trim(60.9)
    assert len(past) == 2
    pasts.trim(61.0)
    assert texts(past) == ["later"]
    pasts.trim(110.0)
    assert (len(past), past.size, pasts._size, len(pasts._order)) == (0, 0, 0, 0)


def test_a_room_has_its_limit() -> None:
    pasts, past = RoomPasts(60, 100 * MAX_ROOM_BYTES), RoomPast()
    for number in range(50):
        pasts.add(past, [written(number, f"{number} " + "x" * (MAX_ROOM_BYTES // 20))], 1.0)
    assert past.size <= MAX_ROOM_BYTES
    assert pasts._size == past.size
    assert texts(past)[-1].startswith("49 ")


def test_all_rooms_together_have_theirs_and_the_oldest_line_of_any_goes_first() -> None:
    pasts, rooms = RoomPasts(60, 20_000), [RoomPast() for _ in range(3)]
    for number in range(30):
        pasts.add(rooms[number % 3], [written(number, "x" * 1000)], float(number))
        assert pasts._size == sum(past.size for past in rooms) <= 20_000
    left = sorted(line.at_ms for past in rooms for line in past.lines())
    assert left == list(range(left[0], 30))


def test_of_a_room_that_is_gone_nothing_stays() -> None:
    pasts, past, other = RoomPasts(60, 20_000), RoomPast(), RoomPast()
    pasts.add(past, [written(1), said(1, pt="dito")], 1.0)
    pasts.add(other, [written(1)], 1.0)
    pasts.drop(past)
    assert len(past) == past.size == 0
    assert pasts._size == other.size
    pasts.trim(100.0)
    assert pasts._size == 0
