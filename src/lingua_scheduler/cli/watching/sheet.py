"""Renders the parts of a picture as lines of a given width, for `lingua status` and `lingua top`."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from lingua_scheduler.cli.wording import (
    LEVEL_MARKS,
    LEVEL_STYLES,
    bar,
    counted,
    latency,
    level_style,
    node_state,
    plain,
    rate,
    short_span,
    span,
)
from lingua_scheduler.domain.watching.pairs import is_echo, name_of, private_nodes, unlisted
from lingua_scheduler.domain.watching.picture import Alarm, Level, PairLook, Picture
from lingua_scheduler.domain.watching.verdict import (
    NODE_LEVELS,
    in_order,
    listed,
    needs_look,
    node_level,
    subjects,
    verdict,
)

LABEL_WIDTH = 11
_SINCE_WIDTH = 7
_LINES_OF_AN_ALARM = 4
_BAR_WIDTH = 10
MOST_LANGUAGES = 6
# What is said of a pair that such an alarm is about, and its style.
MISSING_WORDS = {
    "pair.lost": ("lost", "red"),
    "pair.quarantined": ("quarantined", "red"),
    "pair.unserved": ("never served", "yellow"),
}


def verdict_line(picture: Picture) -> Text:
    found = picture.verdict or verdict(picture)
    return Text(plain(found.text), style=f"bold {level_style(found.level)}")


def verdict_lines(picture: Picture, width: int, most: int = _LINES_OF_AN_ALARM) -> list[Text]:
    line = verdict_line(picture)
    return [Text(part, style=line.style) for part in wrapped(line.plain, width, most)]


def scheduler_line(picture: Picture, at_ms: int) -> Text:
    age = f"{span(at_ms - picture.at_ms)} old"
    known = Text(f"last known state, {age}", style="red") if picture.is_stale else Text(f"picture {age}")
    return Text(f"{plain(picture.made_by)}, version {plain(picture.release)}, ") + known


def traffic_lines(picture: Picture, width: int) -> list[Text]:
    """Jobs and their latencies, in two lines where one is too narrow; sessions, and slots with a bar if it fits."""
    now = picture.now
    speed = Text(f"{rate(now.ended_per_s)} jobs/s")
    if now.failed_per_s:
        speed.append(f", {rate(now.failed_per_s)}/s fail", style="red")
    if now.retries_per_s:
        speed.append(f", {rate(now.retries_per_s)} retries/s", style="yellow")
    took = Text(f"p50 {latency(now.p50_ms)}  p95 {latency(now.p95_ms)}  p99 {latency(now.p99_ms)}")
    gap = Text(" " * 3)
    speeds = [speed + gap + took] if speed.cell_len + gap.cell_len + took.cell_len <= width else [speed, took]
    room = Text(f"{counted(now.sessions, 'session')}, ")
    waiting = f"{counted(now.jobs_waiting, 'job')} {'waits' if now.jobs_waiting == 1 else 'wait'}"
    room.append(waiting, style="yellow" if now.jobs_waiting else "")
    slot = "public slot" if private_nodes(picture) else "slot"
    room.append(f", {now.slots_taken} of {counted(now.slots_total, slot)} taken ")
    full = room + bar(now.slots_taken, now.slots_total, _BAR_WIDTH)
    return [*speeds, full if full.cell_len <= width else room]


def alarm_lines(alarms: list[Alarm], at_ms: int, width: int, most: int) -> list[Text]:
    """The worst first, those of one kind together. Where room is scarce, only what is critical is said in full."""
    kinds = list(_by_kind(alarms).values())
    said = [_alarm(alike, at_ms, width, _LINES_OF_AN_ALARM) for alike in kinds]
    # Less of each, until all are there; the step of what is critical is said as long as that can be.
    for of_critical, of_others in ((_LINES_OF_AN_ALARM, 1), (2, 1)):
        if sum(map(len, said)) > most:
            said = [
                _alarm(alike, at_ms, width, of_critical if alike[0].level is Level.CRITICAL else of_others)
                for alike in kinds
            ]
    shown: list[Text] = []
    for number, lines in enumerate(said):
        # One line is kept for saying that there are more.
        if len(shown) + len(lines) > most - (number < len(said) - 1):
            unsaid = sum(map(len, kinds[number:]))
            return [
                *shown,
                Text(f"   and {counted(unsaid, 'more alarm')}; lingua status --json has all of them", style="dim"),
            ]
        shown += lines
    return shown


def _alarm(alike: list[Alarm], at_ms: int, width: int, most: int) -> list[Text]:
    first = alike[0]
    others, unnamed = subjects(alike[1:])
    head = Text(f"{LEVEL_MARKS[first.level]} {short_span(at_ms - first.since_ms):<{_SINCE_WIDTH}}")
    head.stylize(LEVEL_STYLES[first.level])
    indent = head.cell_len
    # In front, where it is never cut.
    text = plain(_done(first) + first.text)
    also = _also(first.text, listed(others, unnamed, 5)) if others or unnamed else ""
    if most == 1 and (others or unnamed):
        also = f" (+{len(others) + unnamed})"
        body = [cut(text, width - indent - len(also)) + also]
    else:
        body = wrapped(text + plain(also), width - indent, most)
    return [(Text(" " * indent) if i else head) + Text(part) for i, part in enumerate(body)]


def _done(alarm: Alarm) -> str:
    """What was done about it: such an alarm does not count as something that needs attention."""
    if alarm.silenced_until_ms:
        return "(silenced) "
    if not alarm.acknowledged_at_ms:
        return ""
    return f"(acknowledged by {alarm.handled_by}) " if alarm.handled_by else "(acknowledged) "


def _also(text: str, others: str) -> str:
    """A text may end with a command, which is copied: no full stop may follow it."""
    return f" Also: {others}." if text.endswith(".") else f" (also: {others})"


def _by_kind(alarms: list[Alarm]) -> dict[tuple[str, str, str], list[Alarm]]:
    kinds: dict[tuple[str, str, str], list[Alarm]] = {}
    for alarm in in_order(alarms):
        kinds.setdefault((alarm.level, alarm.code, _done(alarm)), []).append(alarm)
    return kinds


def wrapped(words: str, width: int, most: int) -> list[str]:
    """At most this many lines; the last one shows that something was cut."""
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width:
            lines[-1] = longer
        elif len(lines) < most:
            lines.append(word)
        else:
            lines[-1] = cut(f"{lines[-1]} …" if cell_len(lines[-1]) + 2 <= width else f"{lines[-1]}…", width)
            break
    return [cut(line, width) for line in lines]


def cut(words: str, width: int) -> str:
    if cell_len(words) <= width:
        return words
    text = Text(words)
    text.truncate(max(width, 1), overflow="ellipsis")
    return text.plain


class PairsLook(NamedTuple):
    """Language pairs, grouped by what an operator needs to know."""

    served: int
    # Languages into themselves, which nodes serve besides.
    echoes: int
    text_only: int
    # Wanted pairs that no node takes jobs for: what is wrong, and with which.
    missing: dict[str, list[str]]
    full: list[str]
    thin: list[PairLook]


def sorted_pairs(picture: Picture) -> PairsLook:
    served = [pair for pair in picture.pairs if pair.nodes and not is_echo(name_of(pair))]
    # With one public node every pair depends on it; this need not be shown.
    is_fleet = len(picture.nodes) - private_nodes(picture) > 1
    return PairsLook(
        served=len(served) + unlisted(picture),
        echoes=sum(pair.nodes > 0 and is_echo(name_of(pair)) for pair in picture.pairs),
        text_only=sum(not pair.nodes and pair.text_nodes > 0 and not is_echo(name_of(pair)) for pair in picture.pairs),
        missing={
            word: sorted({alarm.subject for alarm in picture.alarms if alarm.code == code and alarm.subject})
            for code, (word, _) in MISSING_WORDS.items()
        },
        full=[f"{pair.src}:{pair.tgt}" for pair in served if not pair.free],
        thin=[pair for pair in served if pair.hangs_on and is_fleet],
    )


def pair_lines(picture: Picture, width: int) -> list[Text]:
    found = sorted_pairs(picture)
    text_only = f", {found.text_only} as text only" if found.text_only else ""
    echoes = f", {found.echoes} more into the same language" if found.echoes else ""
    by_public = " by public nodes" if private_nodes(picture) else ""
    style = "" if found.served or by_public else "red"
    lines = [Text(f"{found.served} served{by_public}{text_only}{echoes}", style=style)]
    thin = [f"{pair.src}:{pair.tgt} (only {pair.hangs_on})" for pair in found.thin]
    if any(cell_len(one) > width - len(" and 9999 more") for one in thin):
        # A name is shown whole or not at all.
        thin = [name_of(pair) for pair in found.thin]
    missing = [(word, found.missing[word], style) for word, style in MISSING_WORDS.values()]
    for name, pairs, style in (*missing, ("full", found.full, "yellow"), ("thin", thin, "yellow")):
        if pairs:
            lines.append(Text(f"{name}: ", style=style) + Text(_as_many_as_fit(pairs, width - len(name) - 2)))
    return lines


def _as_many_as_fit(words: list[str], width: int) -> str:
    for most in range(len(words), 1, -1):
        shown = plain(listed(words, 0, most))
        if cell_len(shown) <= width:
            return shown
    return cut(plain(listed(words, 0, 1)), width)


def node_line(picture: Picture, command: str) -> Text:
    """How many there are in each state; if there are none, the command that starts one."""
    states = Counter(node.state for node in picture.nodes)
    if not states:
        return Text(f"none; start one with: {command} --engine sim", style="red")
    private = private_nodes(picture)
    line = Text(f"{len(picture.nodes)}{f' ({private} private)' if private else ''}: ")
    order = [*reversed(NODE_LEVELS), *sorted(states.keys() - NODE_LEVELS.keys())]
    each = [Text(f"{states[state]} {plain(state)}", level_style(node_level(state))) for state in order if states[state]]
    return line + Text(", ").join(each)


def ailing_lines(picture: Picture, at_ms: int, most: int) -> list[Text]:
    """Nodes that need a look."""
    found = picture.needs_look or needs_look(picture)
    known = {node.node_id: node for node in picture.nodes}
    nodes = [known[name] for name in found.nodes if name in known]
    count = len(nodes) + found.more
    shown = nodes if count <= most else nodes[: max(0, most - 1)]
    # Names are copied into the next command, so they are never cut.
    name_width = max((len(node.node_id) for node in shown), default=0)
    lines = []
    for node in shown:
        line = Text(f"{plain(node.node_id):<{name_width}}  ")
        line.append_text(node_state(node, at_ms))
        line.append(f", {node.held} of {node.max_jobs} taken, seen {short_span(at_ms - node.seen_at_ms)} ago")
        lines.append(line)
    if len(shown) < count and most > 0:
        lines.append(Text(f"and {count - len(shown)} more that need attention; --nodes shows all", style="dim"))
    return lines


def instance_line(picture: Picture) -> Text:
    gone = [one for one in picture.instances if not one.is_alive]
    stopped = sum(one.has_left for one in gone)
    line = Text(f"{len(picture.instances) - len(gone)} alive")
    if len(gone) > stopped:
        line.append(f", {len(gone) - stopped} dead", style="yellow")
    if stopped:
        line.append(f", {stopped} stopped", style="dim")
    return line.append(", " + (f"led by {plain(picture.leader)}" if picture.leader else "no leader"))


def room_line(picture: Picture) -> Text:
    """Empty if there are no rooms."""
    rooms = picture.rooms
    if not rooms.rooms:
        return Text()
    line = Text(f"{rooms.rooms} with {counted(rooms.members, 'member')}")
    if rooms.guests:
        line.append(f" and {counted(rooms.guests, 'guest')}")
    each = [
        f"{plain(language)} {count}" + (f" (p95 {latency(late)})" if (late := rooms.lag_p95_ms.get(language)) else "")
        for language, count in rooms.languages.items()
    ]
    return line.append(f": {', '.join(each[:MOST_LANGUAGES])}{', …' if len(each) > MOST_LANGUAGES else ''}")


def redis_line(picture: Picture) -> Text:
    if picture.is_stale:
        return Text("unavailable; lingua redis check shows details once it is back", style="red")
    line = Text(f"{plain(picture.redis_version)}, keys {plain(picture.key_prefix)}, map version {picture.map_version}")
    if picture.dead_letters:
        line.append(f", {counted(picture.dead_letters, 'dead letter')}", style="yellow")
    return line


def labelled(label: str, lines: Iterable[Text]) -> list[Text]:
    return [Text(f"{label if not i else '':<{LABEL_WIDTH}}", style="dim") + line for i, line in enumerate(lines)]


def fitting(line: Text, width: int) -> list[Text]:
    """The line, or as many as it needs."""
    return list(line.wrap(Console(width=width), width))
