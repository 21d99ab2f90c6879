"""Every frame of `lingua top` fits its screen, and says what matters most first."""

import pytest

from lingua_scheduler.cli.watching.frames import SORTS, View, frame, next_sort
from lingua_scheduler.domain.watching.following import Seen, Whole
from lingua_scheduler.domain.watching.picture import Level, Picture
from tests.support.watched import AT_MS, alarm, event, moment, node, pair, picture


def seen(shown: Picture, events: int = 0) -> Seen:
    found = Seen()
    history = [moment(AT_MS + i, done_per_s=float(i), p95_ms=None if i % 7 else 900.0 + i) for i in range(400)]
    happened = [event("node.left", f"node-{i}", text=f"node-{i} left") for i in range(events)]
    found.hear(Whole(picture=shown, history=history, events=happened))
    return found


USUAL = View()


def lines(shown: Picture, view: View = USUAL, width: int = 80, height: int = 24, events: int = 0) -> list[str]:
    return [line.plain for line in frame(seen(shown, events), view, AT_MS, width, height)]


CROWD = picture(
    nodes=[node(f"node-{i:08d}", held=i % 5, cpu=55.5, unavailable=["asr", "tts"] * (i % 2)) for i in range(1_000)],
    pairs=[pair(f"{a}{b}:zh", free=i) for i, (a, b) in enumerate((a, b) for a in "abcdefgh" for b in "ijklm")],
    alarms=[alarm(f"a.{i}", Level.WARNING, str(i), "Something is not as it should be. " * 4) for i in range(30)],
)


@pytest.mark.parametrize("width", [20, 60, 80, 132, 200])
@pytest.mark.parametrize("height", [6, 10, 24, 50])
@pytest.mark.parametrize("shown", [CROWD, picture(), picture(nodes=[], pairs=[])], ids=["crowd", "few", "none"])
def test_a_frame_fits_every_screen(shown: Picture, width: int, height: int) -> None:
    found = frame(seen(shown, events=60), View(has_keys=True, note="lost the scheduler"), AT_MS, width, height)
    assert len(found) <= height
    assert max(line.cell_len for line in found) <= width


def test_the_usual_screen_shows_a_little_of_everything() -> None:
    text = "\n".join(lines(CROWD))
    for words in ("People are being translated", "12.5 jobs/s", "p95 1.2 s", "more alarms", "more nodes", "more pairs"):
        assert words in text


def test_nodes_are_sorted_by_load_unless_asked_otherwise() -> None:
    nodes = [
        node("idle", held=0, seen_at_ms=AT_MS - 1_000),
        node("busy", held=4, seen_at_ms=AT_MS - 500),
        node("sick", held=1, state="quarantined", seen_at_ms=AT_MS - 700),
        node("away", held=2, seen_at_ms=AT_MS - 60_000),
    ]

    def order(sort: str) -> list[str]:
        names = [node.node_id for node in nodes]
        rows = [line.split()[0] for line in lines(picture(nodes=nodes), View(sort=sort)) if line]
        return [row for row in rows if row in names]

    assert order("load") == ["busy", "away", "sick", "idle"]
    assert order("state") == ["sick", "busy", "away", "idle"]
    assert order("seen") == ["away", "idle", "sick", "busy"]
    assert order("name") == ["away", "busy", "idle", "sick"]


def test_the_key_goes_through_every_order_and_comes_back() -> None:
    sort, met = "load", []
    for _ in SORTS:
        met.append(sort)
        sort = next_sort(sort)
    assert (sort, set(met)) == ("load", set(SORTS))


def test_the_pair_with_the_least_room_is_first() -> None:
    pairs = [pair("a:b", free=8), pair("c:d", free=0), pair("e:f", free=2, hangs_on="node-1")]
    shown = picture(pairs=pairs, alarms=[alarm("pair.lost", Level.CRITICAL, "x:y", "Nobody serves x → y.")])
    rows = [line[51:].split() for line in lines(shown)]
    table = rows[rows.index(["pair", "free", "nodes"]) + 1 :]
    assert table[:4] == [["x:y", "lost"], ["c:d", "0/8", "2"], ["e:f", "2/8", "2", "thin"], ["a:b", "8/8", "2"]]


def test_a_lost_connection_and_a_pause_are_said() -> None:
    shown = lines(picture(), View(is_paused=True, has_keys=True, note="lost the scheduler (refused)"))
    assert "paused" in shown[0]
    assert shown[1] == "lost the scheduler (refused)"
    assert "go on" in shown[-1]


def test_a_tall_screen_also_shows_what_changed_last() -> None:
    assert not any("node-59 left" in line for line in lines(picture(), height=20, events=60))
    assert any("node-59 left" in line for line in lines(picture(), height=50, events=60))


def test_before_the_first_picture_there_is_something_to_read() -> None:
    assert [line.plain for line in frame(Seen(), View(), AT_MS, 80, 24)] == ["waiting for the first picture …"]


def test_the_state_stands_beside_a_long_name_on_a_narrow_screen() -> None:
    name = "sim-very-long-name-of-a-node-in-rack-17-unit-42"
    assert f"{name}  0/4   ready" in lines(picture(nodes=[node(name, held=0)]), width=60)


def test_a_narrow_screen_shows_the_whole_command_that_starts_a_node() -> None:
    view = View(command="lingua node --url ws://scheduler.example.com:21030")
    shown = " ".join(" ".join(lines(picture(nodes=[]), view, 60)).split())
    assert f"start one with: {view.command} --engine sim" in shown


def test_alarms_name_the_scheduler_in_the_command_that_starts_a_node() -> None:
    view = View(command="lingua node --url ws://a:21030")
    lost = alarm("nodes.none", Level.CRITICAL, text="No node is connected. Start one with lingua node.")
    assert any(f"Start one with {view.command}." in line for line in lines(picture(alarms=[lost]), view, 100))
