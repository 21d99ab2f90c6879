"""The audit log in Redis: a stream whose entries have their number as id, and its head."""

from typing import NamedTuple

from lingua_scheduler.domain.access.audit import AppendOutcome, AuditEntry, AuditHead, canonical
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import is_text, number_of
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys

PAGE = 500
# Stands for an entry that is no text; no reader takes it for one.
_RUBBISH = ""


class Appended(NamedTuple):
    outcome: AppendOutcome
    # Of the log, if it was appended.
    length: int = 0
    # Where the head is, if it moved; as it stands there, so that the next try can name it.
    head: str = ""
    # Number of the last entry, if the log has later ones than the head; 0 if it has no number.
    last_seq: int = 0


class AuditStore:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._line = line
        self._log = keys.audit_log
        self._head = keys.audit_head
        self._scripts = scripts
        self._unreadable = unreadable

    async def append(self, expected: str, entry: AuditEntry) -> Appended:
        """`expected` is the head that it follows, as Redis has it. Safe to repeat."""
        word, value = await self._scripts.run(
            "audit_append",
            log=self._log,
            head=self._head,
            expected=expected,
            reached=str(entry.head),
            id=f"{entry.seq}-0",
            entry=canonical(entry),
        )
        match AppendOutcome(word):
            case AppendOutcome.APPENDED:
                return Appended(AppendOutcome.APPENDED, length=int(value))
            case AppendOutcome.MOVED:
                return Appended(AppendOutcome.MOVED, head=value)
            case AppendOutcome.BEHIND:
                return Appended(AppendOutcome.BEHIND, last_seq=number_of(value.partition("-")[0]) or 0)

    async def head_text(self) -> str:
        """The head as it stands there; empty if there is none."""
        return await self._line.call("GET", self._head) or ""

    async def head(self) -> AuditHead | None:
        text = await self.head_text()
        found = AuditHead.parse(text)
        self._unreadable.met("head", self._head, int(bool(text) and found is None))
        return found

    async def length(self) -> int:
        return int(await self._line.call("XLEN", self._log))

    async def page(self, after: str = "0-0", most: int = PAGE) -> tuple[list[str], str]:
        """Entries as text, the oldest first, and after which to go on; empty at the end. Rubbish is an empty text."""
        found = await self._line.call("XRANGE", self._log, f"({after}", "+", "COUNT", most)
        return self._texts(found), found[-1][0] if len(found) == most else ""

    async def page_back(self, before: str = "+", most: int = PAGE) -> tuple[list[str], str]:
        """The same, the newest first."""
        found = await self._line.call(
            "XREVRANGE", self._log, before if before == "+" else f"({before}", "-", "COUNT", most
        )
        return self._texts(found), found[-1][0] if len(found) == most else ""

    async def trim(self, kept_from: int) -> None:
        """Remove the entries before this one."""
        await self._line.call("XTRIM", self._log, "MINID", f"{kept_from}-0")

    def _texts(self, page: list[tuple[str, list[str]]]) -> list[str]:
        texts = [flat[1] if len(flat) == 2 and is_text(flat[1]) else _RUBBISH for _, flat in page]
        self._unreadable.met("log", self._log, texts.count(_RUBBISH))
        return texts
