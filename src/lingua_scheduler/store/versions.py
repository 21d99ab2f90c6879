"""The version of the data under our prefix: claimed at start, and again after the data was lost."""

from typing import NamedTuple

from lingua_scheduler.domain.maintenance.versions import DATA_VERSION, VersionClaimOutcome
from lingua_scheduler.store.connection import RedisLine
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import Scripts


class ClaimedVersion(NamedTuple):
    outcome: VersionClaimOutcome
    # The version that was found, where it is not ours.
    stored: str = ""


class Versions:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts
        # The version that was there last. Redis may lose it while instances of the release before still run.
        self._found = 0

    async def claim(self, known: int = DATA_VERSION, *, finish: bool = False) -> ClaimedVersion:
        """Write the version where there is none; `finish` an upgrade, and it is raised over the one before."""
        reply = await self._scripts.run(
            "version_claim",
            version=self._keys.version,
            known=known,
            oldest=known - 1,
            finish=int(finish),
            unmarked=self._found or known,
        )
        claimed = ClaimedVersion(VersionClaimOutcome(reply[0]), *reply[1:])
        if claimed.outcome is VersionClaimOutcome.OLDER:
            self._found = int(claimed.stored)
        elif claimed.outcome in (VersionClaimOutcome.SAME, VersionClaimOutcome.RAISED):
            self._found = known
        return claimed

    async def read(self) -> str | None:
        stored: str | None = await self._line.call("GET", self._keys.version)
        return stored
