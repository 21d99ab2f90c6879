"""The parts of a picture as lines that fit a width: `lingua status` and `lingua top` are put together from them."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from lingua_scheduler.cli.wording import (
    LEVEL_MARKS,
    LEVEL_STYLES,
    STATE_STYLES,
    bar,
    counted,
    latency,
    node_state,
    plain,
    rate,
    short_span,
    span,
)
from lingua_scheduler.domain.watching.pairs import is_echo, name_of, unlisted
from lingua_scheduler.domain.watching.picture import Alarm, Level, NodeLook, PairLook, Picture
from lingua_scheduler.domain.watching.verdict import listed, subjects, verdict, worst_first

LABEL_WIDTH = 11
_SINCE_WIDTH = 7
_LINES_OF_AN_ALARM = 2


def verdict_line(picture: Picture) -> Text:
    level, words = verdict(picture)
    return Text(plain(words), style=f"bold {LEVEL_STYLES[level]}" if level else "bold green")


def scheduler_line(picture: Picture, at_ms: int) -> Text:
    age = f"{span(at_ms - picture.at_ms)} old"
    known = Text(f"what was known last, {age}", style="red") if picture.is_stale else Text(f"picture {age}")
    return Text(f"{plain(picture.made_by)}, version {plain(picture.release)}, ") + known


def traffic_lines(picture: Picture) -> list[Text]:
    now = picture.now
    speed = Text(f"{rate(now.ended_per_s)} jobs/s")
    if now.failed_per_s:
        speed.append(f", {rate(now.failed_per_s)}/s fail", style="red")
    if now.retries_per_s:
        speed.append(f", {rate(now.retries_per_s)} retries/s", style="yellow")
    speed.append(f"   p50 {latency(now.p50_ms)}  p95 {latency(now.p95_ms)}  p99 {latency(now.p99_ms)}")
    room = Text(f"{counted(now.sessions, 'session')}, ")
    waiting = f"{counted(now.jobs_waiting, 'job')} {'waits' if now.jobs_waiting == 1 else 'wait'}"
    room.append(waiting, style="yellow" if now.jobs_waiting else "")
    room.append(f", {now.slots_taken} of {counted(now.slots_total, 'slot')} taken ")
    return [speed, room + bar(now.slots_taken, now.slots_total, 10)]


def alarm_lines(alarms: list[Alarm], at_ms: int, width: int, most: int) -> list[Text]:
    """The worst first, those of one kind together. Where room is scarce, only what is critical is said in full."""
    kinds = list(_by_kind(alarms).values())
    said = [_alarm(alike, at_ms, width, _LINES_OF_AN_ALARM) for alike in kinds]
    if sum(map(len, said)) > most:
        said = [
            lines if alike[0].level is Level.CRITICAL else _alarm(alike, at_ms, width, 1)
            for alike, lines in zip(kinds, said, strict=True)
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
    also = f" Also: {listed(others, unnamed, 5)}." if others or unnamed else ""
    if most == 1 and also:
        also = f" (+{len(others) + unnamed})"
        body = [cut(plain(first.text), width - indent - len(also)) + also]
    else:
        body = wrapped(plain(first.text + also), width - indent, most)
    return [(Text(" " * indent) if i else head) + Text(part) for i, part in enumerate(body)]


def _by_kind(alarms: list[Alarm]) -> dict[tuple[str, str], list[Alarm]]:
    kinds: dict[tuple[str, str], list[Alarm]] = {}
    for alarm in worst_first(alarms):
        kinds.setdefault((alarm.level, alarm.code), []).append(alarm)
    return kinds


def wrapped(words: str, width: int, most: int) -> list[str]:
    """In at most so many lines; the last one tells when something was cut."""
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
    """Language pairs, sorted by what somebody on call asks about them."""

    served: int
    text_only: int
    lost: list[str]
    full: list[str]
    thin: list[PairLook]


def sorted_pairs(picture: Picture) -> PairsLook:
    served = [pair for pair in picture.pairs if pair.nodes and not is_echo(name_of(pair))]
    # With one node every pair hangs on it, which is no news.
    is_fleet = len(picture.nodes) > 1
    return PairsLook(
        served=len(served) + unlisted(picture),
        text_only=sum(not pair.nodes and pair.text_nodes > 0 for pair in picture.pairs),
        lost=sorted({alarm.subject for alarm in picture.alarms if alarm.code == "pair.lost" and alarm.subject}),
        full=[f"{pair.src}:{pair.tgt}" for pair in served if not pair.free],
        thin=[pair for pair in served if pair.hangs_on and is_fleet],
    )


def pair_lines(picture: Picture, width: int) -> list[Text]:
    found = sorted_pairs(picture)
    text_only = f", {found.text_only} as text only" if found.text_only else ""
    lines = [Text(f"{found.served} served{text_only}", style="" if found.served else "red")]
    thin = [f"{pair.src}:{pair.tgt} (only {pair.hangs_on})" for pair in found.thin]
    for name, pairs, style in (("lost", found.lost, "red"), ("full", found.full, "yellow"), ("thin", thin, "yellow")):
        if pairs:
            lines.append(Text(f"{name}: ", style=style) + Text(_as_many_as_fit(pairs, width - len(name) - 2)))
    return lines


def _as_many_as_fit(words: list[str], width: int) -> str:
    for most in range(len(words), 1, -1):
        shown = plain(listed(words, 0, most))
        if cell_len(shown) <= width:
            return shown
    return cut(plain(listed(words, 0, 1)), width)


def node_line(picture: Picture) -> Text:
    """How many there are in each state."""
    states = Counter(node.state for node in picture.nodes)
    if not states:
        return Text("none; start one with: lingua node --engine sim", style="red")
    line = Text(f"{len(picture.nodes)}: ")
    order = [*STATE_STYLES, *sorted(states.keys() - STATE_STYLES.keys())]
    each = [Text(f"{states[state]} {plain(state)}", STATE_STYLES.get(state, "")) for state in order if states[state]]
    return line + Text(", ").join(each)


def ailing(picture: Picture) -> list[NodeLook]:
    """Nodes that need a look: those an alarm names first, then those that do not just work."""
    named = {alarm.subject for alarm in picture.alarms if alarm.code.startswith("node.")}
    order = ["quarantined", "probation", "degraded", "registering", "draining"]
    found = [node for node in picture.nodes if node.node_id in named or node.state != "ready" or node.unavailable]
    return sorted(
        found,
        key=lambda node: (
            node.node_id not in named,
            order.index(node.state) if node.state in order else len(order),
            node.node_id,
        ),
    )


def ailing_lines(picture: Picture, at_ms: int, most: int) -> list[Text]:
    nodes = ailing(picture)
    shown = nodes if len(nodes) <= most else nodes[: max(0, most - 1)]
    name_width = min(24, max((len(node.node_id) for node in shown), default=0))
    lines = []
    for node in shown:
        line = Text(f"{cut(plain(node.node_id), name_width):<{name_width}}  ")
        line.append_text(node_state(node, at_ms))
        line.append(f", {node.held} of {node.max_jobs} taken, seen {short_span(at_ms - node.seen_at_ms)} ago")
        lines.append(line)
    if len(shown) < len(nodes) and most > 0:
        lines.append(Text(f"and {len(nodes) - len(shown)} more that need a look; --nodes shows all", style="dim"))
    return lines


def instance_line(picture: Picture) -> Text:
    gone = [one for one in picture.instances if not one.is_alive]
    stopped = sum(one.has_left for one in gone)
    line = Text(f"{len(picture.instances) - len(gone)} alive")
    if len(gone) > stopped:
        line.append(f", {len(gone) - stopped} dead", style="yellow")
    if stopped:
        line.append(f", {stopped} stopped", style="dim")
    return line.append(", " + (f"led by {plain(picture.leader)}" if picture.leader else "nobody leads"))


def redis_line(picture: Picture) -> Text:
    if picture.is_stale:
        return Text("away; lingua redis check tells more once it is back", style="red")
    line = Text(f"{plain(picture.redis_version)}, keys {plain(picture.key_prefix)}, map version {picture.map_version}")
    if picture.dead_letters:
        line.append(f", {counted(picture.dead_letters, 'dead letter')}", style="yellow")
    return line


def labelled(label: str, lines: Iterable[Text]) -> list[Text]:
    return [Text(f"{label if not i else '':<{LABEL_WIDTH}}", style="dim") + line for i, line in enumerate(lines)]
