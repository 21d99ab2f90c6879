"""The services of a model hub: asked for in the background, what was known last is shown meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from lingua_scheduler.domain.nodes.model_hub import OfferedService, UnreadableCatalogue, read_catalogue
from lingua_scheduler.settings import CatalogueSettings
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.figures import replace_file

_log = logs.get()

# So many failures are borne; from then on the pauses double, up to ten minutes.
FAILURES_BORNE = 3
LONGEST_PAUSE_S = 600.0

# From an address to what it answers, at most so many bytes; raises HubAway.
Fetch = Callable[[str, int], Awaitable[bytes]]


class HubAway(Exception):
    """The hub does not answer, or not as it should: one sentence."""


class Catalogue:
    """`path` is the copy for when the hub is away, None: there is none."""

    def __init__(self, settings: CatalogueSettings, path: Path | None, fetch: Fetch) -> None:
        self._settings = settings
        self._path = path
        self._fetch = fetch
        self.services: list[OfferedService] = []
        # Rises with every change.
        self.serial = 0
        self.failures = 0

    async def run(self) -> None:
        """What the copy says first; then ask for ever, if there is somebody to ask."""
        await self.read_copy()
        while self._settings.url:
            await self.refresh()
            await asyncio.sleep(self.pause_s)

    @property
    def pause_s(self) -> float:
        pause_s = self._settings.interval_ms / 1000
        doubled = max(0, min(self.failures, 30) - FAILURES_BORNE + 1)
        return max(pause_s, min(pause_s * (1 << doubled), LONGEST_PAUSE_S))

    async def refresh(self) -> None:
        """Ask once. A failure leaves everything as it was."""
        try:
            async with asyncio.timeout(self._settings.timeout_ms / 1000):
                body = await self._fetch(self._settings.url, self._settings.max_bytes)
            services = read_catalogue(body)
        except (HubAway, UnreadableCatalogue, TimeoutError) as error:
            self.failures += 1
            if self.failures in (1, FAILURES_BORNE):
                reason = str(error) or "it does not answer in time"
                _log.warning("catalogue.away", failures=self.failures, reason=reason, pause_s=self.pause_s)
            return
        self.failures = 0
        if self._take(services):
            await self._write_copy()

    async def read_copy(self) -> None:
        if self._path is None:
            return
        try:
            body = await asyncio.to_thread(_read, self._path, self._settings.max_bytes)
            self._take(read_catalogue(body))
        except FileNotFoundError:
            pass
        except (OSError, UnreadableCatalogue) as error:
            _log.warning("catalogue.copy_unread", path=str(self._path), error=str(error))

    def _take(self, services: list[OfferedService]) -> bool:
        if services == self.services:
            return False
        self.services = services
        self.serial += 1
        _log.info("catalogue.changed", services=len(services))
        return True

    async def _write_copy(self) -> None:
        if self._path is None:
            return
        body = msgspec.json.encode({"services": self.services})
        try:
            await asyncio.to_thread(_write, self._path, body)
        except OSError as error:
            _log.warning("catalogue.copy_unwritten", path=str(self._path), error=str(error))


def _read(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most)


def _write(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, body)
