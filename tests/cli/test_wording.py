"""Figures and states as people read them."""

import msgspec
import pytest
from rich.table import Column, Table
from rich.text import Text

from lingua_scheduler.cli.watching import sheet
from lingua_scheduler.cli.wording import (
    age,
    bar,
    clock,
    counted,
    latency,
    node_state,
    now_ms,
    plain,
    rate,
    short_span,
    span,
    sparkline,
    table_console,
)
from lingua_scheduler.domain.watching.picture import Level
from tests.support.watched import AT_MS, alarm, moment, node, pair, picture


@pytest.mark.parametrize(
    ("ms", "long", "short"),
    [
        (-5, "0 s", "0 s"),
        (59_999, "59 s", "59 s"),
        (119_000, "1 min 59 s", "119 s"),
        (120_000, "2 min 0 s", "2 min"),
        (7_260_000, "2 h 1 min", "2 h"),
        (200_000_000, "2 d 7 h", "2 d"),
    ],
)
def test_spans(ms: int, long: str, short: str) -> None:
    assert (span(ms), short_span(ms)) == (long, short)


def test_a_console_prints_no_word_that_a_terminal_would_obey() -> None:
    """Wherever it stands, and however it got there."""
    words = "[/nope]\x1b]0;X\x07 [red]"
    console = table_console()
    table = Table(Column(words), title=words)
    table.add_row(words)
    table.add_row(Text(words, style="bold"))
    with console.capture() as captured:
        console.print(words, Text(words), table, ":warning:")
    shown = captured.get()
    assert ":warning:" in shown
    assert shown.count("[/nope]") == shown.count("[red]") == 6
    assert not set(shown) & set("\x1b\x07")


def test_lines_and_styles_of_our_own_are_kept() -> None:
    console = table_console()
    table = Table.grid()
    table.add_row("one\ntwo")
    with console.capture() as captured:
        console.print(table, Text("three"), sep="\n")
    assert [line.strip() for line in captured.get().splitlines()] == ["one", "two", "three"]


def test_one_is_not_many() -> None:
    assert [counted(count, "slot") for count in (0, 1, 2)] == ["0 slots", "1 slot", "2 slots"]
    speed, room = sheet.traffic_lines(
        picture(
            now=moment(done_per_s=1.01, failed_per_s=0.99, sessions=1, jobs_waiting=1, slots_taken=1, slots_total=1)
        ),
        80,
    )
    assert speed.plain.startswith("2.0 jobs/s, 0.99/s fail ")
    assert room.plain.startswith("1 session, 1 job waits, 1 of 1 slot taken ")


def test_traffic_that_does_not_fit_one_line_has_two_and_no_bar() -> None:
    busy = moment(done_per_s=1.0, failed_per_s=0.5, retries_per_s=0.2, sessions=100, slots_taken=120, slots_total=400)
    lines = [line.plain.rstrip() for line in sheet.traffic_lines(picture(now=busy), 49)]
    assert len(lines) == 3
    assert "p99" in lines[1]
    assert lines[2].endswith("120 of 400 slots taken")
    assert all(len(line) <= 49 for line in lines)


def test_a_line_that_does_not_fit_is_broken_between_words() -> None:
    words = Text("scheduler-of-the-second-room-left, version 0.1.0, picture 2 s old")
    assert [line.plain.rstrip() for line in sheet.fitting(words, 49)] == [
        "scheduler-of-the-second-room-left, version 0.1.0,",
        "picture 2 s old",
    ]
    assert [line.plain for line in sheet.fitting(words, 80)] == [words.plain]


def test_latencies_and_rates() -> None:
    assert [latency(ms) for ms in (None, 0.4, 999, 1_250, 123_456)] == ["-", "0 ms", "999 ms", "1.2 s", "123 s"]
    assert [rate(per_s) for per_s in (0, 0.0213, 0.5, 12.54, 340.2)] == ["0", "0.021", "0.5", "12.5", "340"]


def test_a_bar_is_full_only_when_all_is_taken_and_empty_only_when_nothing_is() -> None:
    filled = {(part, whole): bar(part, whole, 4).plain.count("■") for part, whole in ((0, 0), (0, 99), (1, 99))}
    assert list(filled.values()) == [0, 0, 1]
    assert bar(98, 99, 4).plain == "■■■·"
    assert bar(99, 99, 4).plain == "■■■■"


def test_a_curve_shows_the_latest_and_leaves_gaps() -> None:
    assert sparkline([9, 0, None, 4, 8], 4) == "▁ ▅█"
    assert sparkline([0, 0], 10) == "▁▁"
    assert sparkline([], 10) == sparkline([1], 0) == ""


def test_what_strangers_chose_cannot_command_the_terminal() -> None:
    assert plain("a\x1b[2Jb\r\n\x9bc\u202ed") == "a [2Jb   c d"


def test_a_time_of_another_day_has_its_date() -> None:
    assert len(clock(AT_MS, AT_MS)) == len("12:00:00")
    assert clock(AT_MS, AT_MS - 3 * 86_400_000).startswith("2027-01-1")


def test_a_node_says_why_it_gets_no_work() -> None:
    quarantined = node(state="quarantined", quarantined_until_ms=AT_MS + 23_500)
    assert node_state(quarantined, AT_MS).plain == "quarantined 23 s"
    assert node_state(node(state="probation"), AT_MS).plain == "on probation"
    assert node_state(node(unavailable=["tts"]), AT_MS).plain == "ready without tts"


def test_alarms_of_one_kind_are_said_once() -> None:
    thin = [alarm("pair.thin", Level.NOTICE, f"a:{i}", "a hangs on b.") for i in range(9)]
    unnamed = alarm("pair.thin", Level.NOTICE, values={"more": 30}, since_ms=0)
    (line,) = sheet.alarm_lines([*thin, unnamed], AT_MS, 200, 10)
    assert line.plain == "-  90 s   a hangs on b. Also: a:1, a:2, a:3, a:4, a:5 and 33 more."


def test_others_of_a_kind_do_not_run_into_a_command() -> None:
    lost = [
        alarm("pair.lost", Level.CRITICAL, f"a:{i}", "Start one with: lingua node --languages a,b") for i in range(2)
    ]
    (line,) = sheet.alarm_lines(lost, AT_MS, 200, 10)
    assert line.plain.endswith("Start one with: lingua node --languages a,b (also: a:1)")


def test_what_is_silenced_is_marked_and_stands_apart() -> None:
    loud, silent = (alarm("pair.lost", Level.CRITICAL, name, f"{name} is lost.") for name in ("a:b", "a:c"))
    silent = msgspec.structs.replace(silent, silenced_until_ms=AT_MS + 60_000)
    lines = [line.plain for line in sheet.alarm_lines([silent, loud], AT_MS, 200, 10)]
    assert [line[10:] for line in lines] == ["a:b is lost.", "(silenced) a:c is lost."]


def test_what_is_acknowledged_is_marked_and_stands_apart_also_where_it_is_cut() -> None:
    names = ("a", "b", "c")
    fresh, seen, signed = (alarm("node.silent", Level.WARNING, name, f"{name} is silent. Check it.") for name in names)
    seen = msgspec.structs.replace(seen, acknowledged_at_ms=AT_MS)
    signed = msgspec.structs.replace(signed, acknowledged_at_ms=AT_MS, handled_by="ada")
    lines = [line.plain for line in sheet.alarm_lines([seen, fresh, signed], AT_MS, 200, 10)]
    assert [line[10:] for line in lines] == [
        "a is silent. Check it.",
        "(acknowledged) b is silent. Check it.",
        "(acknowledged by ada) c is silent. Check it.",
    ]
    narrow = [line.plain for line in sheet.alarm_lines([seen, fresh, signed], AT_MS, 40, 3)]
    assert [line[10:25] for line in narrow] == ["a is silent. Ch", "(acknowledged) ", "(acknowledged b"]


def test_where_room_is_scarce_the_critical_is_said_in_full_and_the_rest_is_counted() -> None:
    words = "word " * 30
    critical = alarm("pair.lost", Level.CRITICAL, "a:b", words)
    warnings = [alarm(f"w{i}", Level.WARNING, "x", f"{words}{i}") for i in range(9)]
    lines = [line.plain for line in sheet.alarm_lines([*warnings, critical], AT_MS, 80, 5)]
    assert len(lines) == 5
    assert lines[0].startswith("!! 90 s   word")
    assert lines[1].startswith("          word")
    assert [line[:2] for line in lines[2:]] == ["! ", "! ", "  "]
    assert "and 7 more alarms" in lines[4]
    assert max(map(len, lines)) <= 80


def test_pairs_are_sorted_by_what_is_wrong_with_them() -> None:
    pairs = [pair("a:b", hangs_on="node-1", nodes=1), pair("c:d", free=0), pair("e:f", nodes=0), pair("g:h")]
    lost = [alarm("pair.lost", Level.CRITICAL, "x:y")]
    lines = [line.plain for line in sheet.pair_lines(picture(pairs=pairs, alarms=lost), 60)]
    assert lines == ["3 served, 1 as text only", "lost: x:y", "full: c:d", "thin: a:b (only node-1)"]
    # What nodes serve besides is named: `lingua pools` lists it too.
    echo = picture(pairs=[pair("a:b"), pair("a:a")])
    assert [line.plain for line in sheet.pair_lines(echo, 60)] == ["1 served, 1 more into the same language"]
    # One node is no fleet: everything hangs on it, and everybody knows.
    alone = picture(pairs=pairs[:1], nodes=[node()])
    assert [line.plain for line in sheet.pair_lines(alone, 60)] == ["1 served"]


def test_as_many_pairs_as_fit_are_named() -> None:
    pairs = [pair(f"a{i}:b", hangs_on="node-1", nodes=1) for i in range(100)]
    line = sheet.pair_lines(picture(pairs=pairs), 60)[1].plain
    assert line == "thin: a0:b (only node-1), a1:b (only node-1) and 98 more"


def test_nodes_an_alarm_names_come_first() -> None:
    nodes = [
        *(node("a", state="draining"), node("b", unavailable=["tts"]), node("c"), node("d", state="quarantined")),
        node("e"),
    ]
    silent = picture(nodes=nodes, alarms=[alarm("node.silent", Level.WARNING, "e")])
    assert [line.plain.split()[0] for line in sheet.ailing_lines(silent, AT_MS, 9)] == ["e", "d", "b"]
    lines = sheet.ailing_lines(picture(nodes=[*nodes, node("f", state="probation")]), AT_MS, 2)
    assert [line.plain for line in lines][1] == "and 2 more that need attention; --nodes shows all"


def test_an_age_is_as_exact_as_it_is_of_use() -> None:
    # A moment may pass while it is looked at.
    assert age(now_ms() + 60_000) == "0 s"
    assert age(now_ms() - 1_800_000) == "30 min"
    assert age(now_ms() - 7_500_000) == "2 h"
