"""A load test as people read it: live, as lines of a log, and at the end. Fits 60 columns."""

from collections import Counter
from enum import Enum, auto

from rich.text import Text

from lingua_scheduler.cli.load.crowd import Plan
from lingua_scheduler.cli.load.tally import SHARES, LoadTally
from lingua_scheduler.cli.wording import latency, plain, rate, span

LABEL = 12
NUMBER = 8
# Of what can have many different values.
MOST_LISTED = 5


class State(Enum):
    SPEAKING = auto()
    WAITING = auto()
    OVER = auto()


def line(plan: Plan, tally: LoadTally, elapsed_s: float) -> str:
    """For a log."""
    return (
        f"{span(elapsed_s * 1000)}: {tally.connected}/{plan.sessions} sessions, {tally.said} said,"
        f" {tally.translated} translated, {_lost(tally)} failed, p99 {latency(tally.took.at(0.99))}"
    )


def sheet(plan: Plan, tally: LoadTally, elapsed_s: float, state: State) -> list[Text]:
    is_over = state is State.OVER
    lines = [
        Text.assemble(("lingua load", "bold"), f"  {plain(plan.address)}"),
        Text(f"{plan.src_lang} → {plan.tgt_lang}, {_size(plan)}, {_time(plan, elapsed_s, state)}"),
        Text(),
    ]
    if not is_over:
        lines.append(_row("sessions", tally.connected, f"of {plan.sessions}"))
    lines.append(_row("said", tally.said, f"{rate(tally.said / elapsed_s) if elapsed_s else 0}/s"))
    lines.append(_row("translated", tally.translated, _share(tally)))
    if tally.late:
        lines.append(_row("late", tally.late, "after one said later"))
    if tally.no_text:
        lines.append(_row("no text", tally.no_text, "nothing was understood"))
    lines += _listed("failed", tally.failed)
    lines += _listed("gaps", tally.gaps)
    if tally.unanswered:
        lines.append(_row("no answer", tally.unanswered, style="red"))
    lines += _listed("lost sessions", tally.sessions_lost)
    if tally.resumed:
        lines.append(_row("resumed", tally.resumed, "sessions"))
    if not is_over:
        lines.append(_row("under way", tally.under_way))
    lines += [Text(), Text("end of speech → result")]
    shown = "   ".join(f"{name} {latency(tally.took.at(share))}" for name, share in SHARES.items())
    lines.append(Text(f"  {shown}   max {latency(tally.took.max_ms or None)}"))
    return lines + [Text(f"! {note}", style="yellow") for note in tally.notes()]


def _size(plan: Plan) -> str:
    return f"{plan.rate:g} jobs/s" if plan.rate else f"{plan.sessions} speakers"


def _time(plan: Plan, elapsed_s: float, state: State) -> str:
    match state:
        case State.SPEAKING:
            return f"{span(elapsed_s * 1000)} of {span(plan.seconds * 1000)}"
        case State.WAITING:
            return "waiting for the last results"
        case State.OVER:
            return span(elapsed_s * 1000)


def _share(tally: LoadTally) -> str:
    done = tally.said - tally.under_way
    return f"{tally.translated / done:.1%}" if done else ""


def _lost(tally: LoadTally) -> int:
    return tally.failed.total() + tally.gaps.total() + tally.unanswered


def _listed(label: str, counts: Counter[str]) -> list[Text]:
    """How many, and how many of each kind."""
    if not counts:
        return []
    most = [Text(f"  {plain(what)}: {count}", style="red") for what, count in counts.most_common(MOST_LISTED)]
    return [_row(label, counts.total(), style="red"), *most]


def _row(label: str, number: int, about: str = "", style: str = "") -> Text:
    return Text(f"{label:{LABEL}} {number:>{NUMBER},}  {about}".rstrip().replace(",", " "), style=style)
