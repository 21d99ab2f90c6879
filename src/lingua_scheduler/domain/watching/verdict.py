"""One sentence on whether people are being translated."""

from typing import NamedTuple

from lingua_scheduler.domain.watching.picture import Alarm, Level, Picture

SEVERITY = {Level.CRITICAL: 0, Level.WARNING: 1, Level.NOTICE: 2}

# The worst first; {subjects} is what such alarms are about.
_CRITICAL = {
    "redis.away": "Nobody can be translated: Redis is away.",
    "nodes.none": "Nobody can be translated: no node takes work.",
    "jobs.failing": "Translations are failing.",
    "pair.lost": "Some people cannot be translated: no node serves {subjects}.",
}
_MOST_SUBJECTS = 2


class Verdict(NamedTuple):
    # None: all is well.
    level: Level | None
    text: str


def verdict(picture: Picture) -> Verdict:
    if picture.is_stale:
        return Verdict(Level.CRITICAL, _CRITICAL["redis.away"])
    urgent = [alarm for alarm in picture.alarms if alarm.level is Level.CRITICAL]
    if urgent:
        return Verdict(Level.CRITICAL, _critical(urgent))
    warnings = sum(alarm.level is Level.WARNING for alarm in picture.alarms)
    if warnings:
        return Verdict(
            Level.WARNING,
            f"People are being translated; {warnings} {'thing needs' if warnings == 1 else 'things need'} a look.",
        )
    level = Level.NOTICE if picture.alarms else None
    # Who asks over HTTP has no session, and sessions of one sentence are over in no time.
    if not picture.now.sessions and not picture.now.ended_per_s:
        return Verdict(level, "All is well, and nobody is talking.")
    return Verdict(level, "All is well: people are being translated.")


def worst_first(alarms: list[Alarm]) -> list[Alarm]:
    """Of equals the latest first: somebody has seen the others."""
    return sorted(alarms, key=lambda alarm: (SEVERITY[alarm.level], -alarm.since_ms, alarm.code, alarm.subject))


def _critical(urgent: list[Alarm]) -> str:
    for code, sentence in _CRITICAL.items():
        alarms = [alarm for alarm in urgent if alarm.code == code]
        if alarms:
            return sentence.format(subjects=listed(*subjects(alarms), _MOST_SUBJECTS))
    return worst_first(urgent)[0].text


def subjects(alarms: list[Alarm]) -> tuple[list[str], int]:
    """What alarms of one kind are about, and how many more there are that were only counted."""
    named = [alarm.subject for alarm in alarms if alarm.subject]
    return named, sum(int(alarm.values.get("more", 0)) for alarm in alarms if not alarm.subject)


def listed(words: list[str], unnamed: int, most: int) -> str:
    """Some of them, and how many more there are."""
    more = max(0, len(words) - most) + unnamed
    return ", ".join(words[:most]) + (f" and {more} more" if more else "")
