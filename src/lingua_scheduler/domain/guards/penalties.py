"""Penalties for failed attempts: who fails too often must wait, twice as long each time."""

from lingua_scheduler.domain.guards.rates import Bucket, Budget
from lingua_sdk.domain.backoff import Backoff

FAILURES_PER_MIN = 20
PAUSES = Backoff(60.0, 3_600.0)
# Who has not failed for so long starts anew.
FORGET_S = 7_200.0
# Of those that must wait, so many tries a second are looked at all the same: one of them may be right.
LOOKS_PER_S = 50
MAX_REMEMBERED = 10_000


class _Record:
    __slots__ = ("bucket", "failed_at", "looks", "pauses", "until_s")

    def __init__(self) -> None:
        self.bucket = Bucket(FAILURES_PER_MIN / 60, FAILURES_PER_MIN - 1)
        self.failed_at = 0.0
        self.looks = Budget(LOOKS_PER_S)
        self.pauses = 0
        self.until_s = 0.0


class Penalties:
    """For a bounded number of names; with too many, those that wait no longer are forgotten, then the oldest."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def wait_s(self, name: str, now_s: float) -> float:
        """Time until it may try again; 0 if it may now."""
        record = self._records.get(name)
        return 0.0 if record is None else max(0.0, record.until_s - now_s)

    def may_look(self, name: str, now_s: float) -> bool:
        """Whether a try that costs something is looked at; of a name that must wait, only some are."""
        record = self._records.get(name)
        return record is None or record.until_s <= now_s or record.looks.take(now_s)

    def failed(self, name: str, now_s: float) -> None:
        record = self._records.get(name)
        if record is None or now_s - record.failed_at > FORGET_S:
            self._make_room(now_s)
            record = self._records[name] = _Record()
        record.failed_at = now_s
        if record.bucket.take(1, now_s):
            record.pauses += 1
            record.until_s = now_s + PAUSES.pause_s(record.pauses)
            # After the pause it has its attempts again, and no more than that.
            record.bucket = Bucket(FAILURES_PER_MIN / 60, FAILURES_PER_MIN - 1)

    def _make_room(self, now_s: float) -> None:
        if len(self._records) < MAX_REMEMBERED:
            return
        waiting = {name: record for name, record in self._records.items() if record.until_s > now_s}
        # Half, so that this is not done again for each new name.
        spare = max(0, len(waiting) - MAX_REMEMBERED // 2)
        self._records = dict(list(waiting.items())[spare:])
