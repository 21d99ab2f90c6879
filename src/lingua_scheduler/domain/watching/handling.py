"""What people did about alarms: acknowledged, silenced or forgotten. It is kept in Redis, for all instances alike."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.watching.picture import Alarm

# An alarm that was not raised for so long is over: the next one is another, and has not been seen yet.
OVER_MS = 300_000
KNOWN_MAX = 1_000
MAX_SILENCE_MS = 30 * 86_400_000


class AlarmAction(StrEnum):
    ACKNOWLEDGE = "acknowledge"  # a person works on it
    SILENCE = "silence"  # it does not count for a time
    FORGET = "forget"  # it is not shown until it is raised anew
    RESET = "reset"  # as if nothing had been done


class HandleOutcome(StrEnum):
    HANDLED = "handled"
    GONE = "gone"  # it is not raised
    FULL = "full"  # too many are silenced


class Handling(NamedTuple):
    """Since when an alarm is raised, and what was done about it; 0 is never."""

    since_ms: int
    seen_at_ms: int
    acknowledged_at_ms: int = 0
    silenced_until_ms: int = 0
    forgotten_at_ms: int = 0
    # Who said so, in their own words.
    by: str = ""


def alarm_id(code: str, subject: str) -> str:
    """As people name it: pair.lost/en:ko, or redis.full."""
    return f"{code}/{subject}" if subject else code


def code_and_subject(name: str) -> tuple[str, str]:
    code, _, subject = name.partition("/")
    return code, subject


def handled(
    found: Iterable[Alarm], known: Mapping[str, Handling], now_ms: int, renewed: Mapping[str, int] | None = None
) -> list[Alarm]:
    """The alarms with what was done about each; those that were forgotten are left out.

    A silence on a code alone holds for all its subjects. An acknowledgement from before the alarm became critical does
    not count any more. `renewed`: when there was last a new reason for an alarm; one
    that was forgotten before is shown again.
    """
    shown = []
    for alarm in found:
        entry = known.get(alarm_id(alarm.code, alarm.subject), Handling(alarm.since_ms, now_ms))
        if entry.forgotten_at_ms > (renewed or {}).get(alarm_id(alarm.code, alarm.subject), 0):
            continue
        silenced_ms = max(entry.silenced_until_ms, known[alarm.code].silenced_until_ms if alarm.code in known else 0)
        is_acknowledged = 0 < entry.acknowledged_at_ms >= alarm.worse_since_ms
        shown.append(
            msgspec.structs.replace(
                alarm,
                since_ms=_since_ms(alarm, entry),
                acknowledged_at_ms=entry.acknowledged_at_ms if is_acknowledged else 0,
                silenced_until_ms=silenced_ms if silenced_ms > now_ms else 0,
                handled_by=entry.by if is_acknowledged or entry.silenced_until_ms > now_ms else "",
            )
        )
    return shown


def _since_ms(alarm: Alarm, entry: Handling) -> int:
    """As long ago as any instance knows; but a node that was heard since was not silent all the time."""
    heard_ms = int(alarm.values.get("seen_at_ms", 0))
    return max(heard_ms, min(alarm.since_ms, entry.since_ms or alarm.since_ms))
