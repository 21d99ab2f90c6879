"""Alarms that are raised, and what people did about them: one table for all instances."""

from collections.abc import Iterable

from lingua_scheduler.domain.watching.handling import KNOWN_MAX, OVER_MS, AlarmAction, HandleOutcome, Handling
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import is_text, number_of
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys

NUMBERS = 5


class KnownAlarms:
    def __init__(self, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._known = keys.alarms
        self._scripts = scripts
        self._unreadable = unreadable

    async def note(self, raised: Iterable[tuple[str, int]]) -> dict[str, Handling]:
        """By id and since when; what is known of each comes back, and of those that are silenced."""
        words = [word for name, since_ms in raised for word in (name, str(since_ms))]
        flat = await self._scripts.run("alarms_note", known=self._known, over_ms=OVER_MS, most=KNOWN_MAX, raised=words)
        found = {
            name: entry
            for name, text in zip(flat[::2], flat[1::2], strict=True)
            if is_text(name) and (entry := _entry(text)) is not None
        }
        self._unreadable.met("alarms", self._known, len(flat) // 2 - len(found))
        return found

    async def handle(self, name: str, action: AlarmAction, for_ms: int, by: str) -> HandleOutcome:
        reply = await self._scripts.run(
            "alarm_handle",
            known=self._known,
            alarm=name,
            action=action.value,
            until_ms=for_ms,
            by=by,
            over_ms=OVER_MS,
            most=KNOWN_MAX,
        )
        return HandleOutcome(reply[0])


def _entry(text: str) -> Handling | None:
    *numbers, by = [*text.split(" ", NUMBERS), ""][: NUMBERS + 1]
    values = [value for number in numbers if (value := number_of(number)) is not None]
    return Handling._make((*values, by)) if len(values) == NUMBERS and is_text(by) else None
