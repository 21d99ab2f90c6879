"""What `lingua top` shows: one frame of text for a screen of any size."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from rich.text import Text

from lingua_scheduler.cli.scheduler_access import with_command
from lingua_scheduler.cli.watching import sheet
from lingua_scheduler.cli.wording import (
    LEVEL_STYLES,
    bar,
    clock,
    counted,
    latency,
    node_state,
    plain,
    rate,
    short_span,
    sparkline,
)
from lingua_scheduler.domain.watching.following import Seen
from lingua_scheduler.domain.watching.pairs import is_echo, served_in_words
from lingua_scheduler.domain.watching.picture import Moment, NodeLook, PairLook, Picture
from lingua_scheduler.domain.watching.verdict import NODE_LEVELS

T = TypeVar("T")

PAIRS_WIDTH = 29
GAP = 2
# Below this there is no room for pairs beside the nodes.
NARROW = 70
MOST_ALARM_LINES = 6
MIN_ROWS = 3
# Below this the verdict has one line.
TALL = 20
# Columns of a row beside the name, with only slots and state, with the last sign of life, and with the bar.
NARROWEST, SEEN_ROOM, BAR_ROOM = 9, 24, 40
STATE_WIDTH = 20


class View(NamedTuple):
    """The user's view settings, and the state of the connection."""

    sort: str = "load"
    is_paused: bool = False
    has_keys: bool = False
    note: str = ""
    # What starts a node.
    command: str = "lingua node"


def load(node: NodeLook) -> float:
    return node.held / node.max_jobs if node.max_jobs else 0.0


_STATES = (*NODE_LEVELS,)

# The key `s` goes through them in this order.
SORTS: dict[str, Callable[[NodeLook], tuple[float | str, ...]]] = {
    "load": lambda node: (-load(node), -node.held, node.node_id),
    "state": lambda node: (_STATES.index(node.state) if node.state in _STATES else -1, -load(node), node.node_id),
    "seen": lambda node: (node.seen_at_ms, node.node_id),
    "name": lambda node: (node.node_id,),
}


def next_sort(sort: str) -> str:
    names = list(SORTS)
    return names[(names.index(sort) + 1) % len(names)]


def frame(seen: Seen, view: View, at_ms: int, width: int, height: int) -> list[Text]:
    """At most `height` lines of at most `width` cells."""
    picture = seen.picture
    if picture is None:
        return [Text(view.note or "waiting for the first picture …")]
    head = [
        *_top_lines(picture, view, at_ms, width, 1 if height < TALL else 3),
        *_traffic(picture, list(seen.history), width),
        *([Text("rooms: ", style="dim") + sheet.room_line(picture)] if picture.rooms.rooms else ()),
    ]
    raised = [msgspec.structs.replace(one, text=with_command(one.text, view.command)) for one in picture.alarms]
    alarms = sheet.alarm_lines(raised, at_ms, width, min(MOST_ALARM_LINES, max(1, height // 4)))
    foot = [_keys(picture, view)]
    left = height - len(head) - len(alarms) - len(foot) - 2
    events = _events(seen, width, left // 4 if left >= 16 else 0)
    left -= len(events)
    rows = _side_by_side(picture, view, at_ms, width, left) if left >= MIN_ROWS else []
    lines = [*head, *(alarms or [Text("no alarms", style="green")]), Text(), *rows, *events]
    shown = [*lines[: height - len(foot)], *foot]
    for line in shown:
        line.truncate(width, overflow="ellipsis")
    return shown


def _top_lines(picture: Picture, view: View, at_ms: int, width: int, most: int) -> list[Text]:
    right = Text(clock(picture.at_ms, at_ms))
    if view.is_paused:
        right = Text("paused, ", style="reverse") + right
    lines = sheet.verdict_lines(picture, max(1, width - right.cell_len - GAP), most)
    lines[0].append(" " * (width - lines[0].cell_len - right.cell_len)).append_text(right)
    if view.note:
        return [*lines, Text(plain(view.note), style="yellow")]
    return [*lines, sheet.scheduler_line(picture, at_ms).append(f", {plain(picture.redis_version)}")]


def _traffic(picture: Picture, history: list[Moment], width: int) -> list[Text]:
    now = picture.now
    ended = [one.ended_per_s for one in history]
    p95s = [one.p95_ms for one in history]
    figures: list[tuple[str, str, Sequence[float | None]]] = [
        (f"{rate(now.ended_per_s)} jobs/s", "" if not now.failed_per_s else f"{rate(now.failed_per_s)}/s fail", ended),
        (f"p95 {latency(now.p95_ms)}", f"p50 {latency(now.p50_ms)}  p99 {latency(now.p99_ms)}", p95s),
    ]
    lines = []
    for figure, more, curve in figures:
        line = Text(f"{figure:<14} ", style="bold")
        line.append(f"{more:<24} ", style="red" if "fail" in more else "dim")
        # Gaps as they are: nothing ended then.
        lines.append(line.append(sparkline(curve, max(0, width - line.cell_len)), style="cyan"))
    return [*lines, sheet.traffic_lines(picture, width)[-1]]


def _events(seen: Seen, width: int, most: int) -> list[Text]:
    """The latest events at the bottom, in at most `height` lines with their heading."""
    lines = [Text(), Text("what changed", style="dim")]
    room = most - len(lines)
    if room < 1 or not seen.events:
        return []
    for event in list(seen.events)[-room:]:
        line = Text(clock(event.at_ms, event.at_ms), style="dim").append("  ")
        lines.append(line.append(sheet.cut(plain(event.text), width - line.cell_len), style=LEVEL_STYLES[event.level]))
    return lines


def _side_by_side(picture: Picture, view: View, at_ms: int, width: int, height: int) -> list[Text]:
    longest = max((len(node.node_id) for node in picture.nodes), default=0)
    if width < max(NARROW, longest + SEEN_ROOM + PAIRS_WIDTH + GAP):
        return _nodes(picture, view, at_ms, width, height)
    left = _nodes(picture, view, at_ms, width - PAIRS_WIDTH - GAP, height)
    right = _pairs(picture, height)
    lines = []
    for i in range(max(len(left), len(right))):
        line = left[i] if i < len(left) else Text()
        line.truncate(width - PAIRS_WIDTH - GAP, overflow="ellipsis", pad=True)
        lines.append(line.append(" " * GAP).append_text(right[i] if i < len(right) else Text()))
    return lines


def _nodes(picture: Picture, view: View, at_ms: int, width: int, height: int) -> list[Text]:
    nodes = sorted(picture.nodes, key=SORTS[view.sort])
    if not nodes:
        return sheet.fitting(sheet.node_line(picture, view.command), width)
    shown, more = _room(nodes, height)
    # Names are copied into the next command: the bar gives way to them, and the state.
    longest = max(len(node.node_id) for node in nodes)
    name_width = min(longest, max(8, width - NARROWEST))
    bar_width = 8 if width >= longest + BAR_ROOM else 0
    has_seen = width >= longest + SEEN_ROOM
    has_machine = width >= name_width + 60 and any(node.cpu is not None for node in nodes)
    figures = max(5, *(len(f"{node.held}/{node.max_jobs}") for node in nodes))
    taken = bar_width + 1 + figures if bar_width else figures
    seen = f"{'seen':>6}  " if has_seen else ""
    head = f"{'node':<{name_width}}  {'taken':<{taken}} {seen}" + ("cpu  mem  gpu  " if has_machine else "")
    has_speech = width >= len(head) + 2 * STATE_WIDTH
    lines = [Text(head + (f"{'state':<{STATE_WIDTH}}speaks" if has_speech else "state"), style="dim")]
    for node in shown:
        line = Text(f"{sheet.cut(plain(node.node_id), name_width):<{name_width}}  ")
        if bar_width:
            line.append_text(bar(node.held, node.max_jobs, bar_width)).append(" ")
        line.append(f"{f'{node.held}/{node.max_jobs}':<{figures}} ")
        if has_seen:
            line.append(f"{short_span(at_ms - node.seen_at_ms):>6}  ")
        if has_machine:
            shares = (node.cpu, node.memory, node.gpu)
            line.append("".join(f"{'-' if share is None else f'{share:.0f}%':>3}  " for share in shares))
        state = node_state(node, at_ms)
        if has_speech:
            state.truncate(STATE_WIDTH - GAP, overflow="ellipsis", pad=True)
            state.append(" " * GAP).append(plain(served_in_words(node, len(node.speech))), style="dim")
        lines.append(line.append_text(state))
    return [*lines, *_and_more(more, "node")]


def headroom(pair: PairLook) -> tuple[float, int, str, str]:
    return (pair.free / pair.slots if pair.slots else -1.0, pair.free, pair.src, pair.tgt)


def _pairs(picture: Picture, height: int) -> list[Text]:
    missing = sheet.sorted_pairs(picture).missing
    rows = [
        Text(f"{plain(name):<9}", style=style) + Text(word, style=f"bold {style}")
        for word, style in sheet.MISSING_WORDS.values()
        for name in missing[word]
    ]
    told = {name for names in missing.values() for name in names}
    for pair in sorted(picture.pairs, key=headroom):
        name = f"{pair.src}:{pair.tgt}"
        if name in told or is_echo(name):
            continue
        row = Text(f"{plain(name):<9}", style=LEVEL_STYLES[pair.level] if pair.level else "")
        row.append(f"{f'{pair.free}/{pair.slots}':>9}").append(f"{pair.nodes:>6}")
        rows.append(row.append(" thin" if pair.hangs_on and len(picture.nodes) > 1 else "", style="yellow"))
    for wide in picture.wide:
        # Any source language into any target language.
        row = Text(f"{f'{len(wide.sources)}→{len(wide.speech)}':<9}", style="" if wide.free else "red")
        rows.append(row.append(f"{f'{wide.free}/{wide.slots}':>9}").append(f"{wide.nodes:>6}"))
    shown, more = _room(rows, height)
    return [Text(f"{'pair':<9}{'free':>9}{'nodes':>6}", style="dim"), *shown, *_and_more(more, "pair")]


def _room(rows: list[T], height: int) -> tuple[list[T], int]:
    """Those that fit below a heading, and how many do not."""
    most = height - 1
    if len(rows) <= most:
        return rows, 0
    return rows[: most - 1], len(rows) - most + 1


def _and_more(count: int, what: str) -> list[Text]:
    return [Text(f"and {counted(count, f'more {what}')}", style="dim")] if count else []


def _keys(picture: Picture, view: View) -> Text:
    counts = Text("nodes ", style="dim") + sheet.node_line(picture, view.command) if picture.nodes else Text("no nodes")
    if not view.has_keys:
        return counts
    words = Text()
    for key, meaning in (("q", "quit"), ("s", f"sort: {view.sort}"), ("p", "go on" if view.is_paused else "pause")):
        words.append(f" {key} ", style="reverse").append(f" {meaning}  ")
    return words + counts
