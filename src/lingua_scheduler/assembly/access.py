"""The parts that know who calls and what they may do, and the audit log."""

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lingua_scheduler.assembly.core import Core
from lingua_scheduler.clock import wall_ms
from lingua_scheduler.configuration.data_dirs import audit_anchor_path, audit_key_path, credentials_path
from lingua_scheduler.console.key_sets import KeySets
from lingua_scheduler.domain.access.expiring import expiring
from lingua_scheduler.domain.access.node_claims import cluster_audience
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.protocol.signals import CredentialsChanged, LoginEnded
from lingua_scheduler.services.access.anchoring import AnchorMemory, Anchors
from lingua_scheduler.services.access.audit_key_files import audit_keys
from lingua_scheduler.services.access.auditing import Auditor
from lingua_scheduler.services.access.backup import Backup
from lingua_scheduler.services.access.book import CredentialBook
from lingua_scheduler.services.access.doorkeeper import Doorkeeper
from lingua_scheduler.services.access.enrolment import Absences, Enrolment
from lingua_scheduler.services.access.jwks import JwksCache
from lingua_scheduler.services.access.keys_file import KeysFile
from lingua_scheduler.services.access.live import LiveCallers
from lingua_scheduler.services.access.logins import LOOK_S as LOGINS_S
from lingua_scheduler.services.access.logins import Logins
from lingua_scheduler.services.access.node_tokens import NodeTokens
from lingua_scheduler.services.access.signing import TokenSigner
from lingua_scheduler.services.access.tokens import TokenReader
from lingua_scheduler.telemetry.tasks import every

SOON_S = 0.1
LIVE_S = 1.0
KEY_USES_S = 60.0
KEY_SETS_S = 30.0
ABSENT_S = 60.0
AUDIT_S = 60.0
ANCHOR_LOOK_S = 5.0
FORGET_S = 3600.0


class AccessParts(NamedTuple):
    auditor: Auditor
    anchors: Anchors
    credentials: CredentialBook
    key_sets: JwksCache
    signer: TokenSigner | None
    doorkeeper: Doorkeeper
    live: LiveCallers
    logins: Logins
    enrolment: Enrolment
    absences: Absences
    cluster: str
    is_leading: Callable[[], bool]
    refresh_s: float

    def chores(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield every("credentials", self.refresh_s, self.credentials.refresh)
        yield every("credentials_soon", SOON_S, self.credentials.refresh_if_outdated)
        yield every("key_uses", KEY_USES_S, self.credentials.share_uses)
        yield every("live_callers", LIVE_S, self.live.look)
        yield every("logins", LOGINS_S, self._look_at_logins)
        yield every("key_sets", KEY_SETS_S, self._read_key_sets)
        yield every("absent_nodes", ABSENT_S, self._end_absent)
        yield every("audit_head", AUDIT_S, self.auditor.look)
        yield every("audit_denied", AUDIT_S, self.auditor.write_denied)
        yield every("audit_old", FORGET_S, self._forget_audited)
        yield every("audit_anchor", ANCHOR_LOOK_S, self.anchors.look)

    def expiring(self) -> dict[str, int]:
        return expiring(self.credentials.all(), self.credentials.last_used_ms, wall_clock_ms())

    async def write_last(self) -> None:
        """What is not written yet, before the instance ends."""
        await self.auditor.write_denied()
        await self.credentials.share_uses()
        await self.anchors.finish()

    async def _look_at_logins(self) -> None:
        await self.logins.look(self.live.logins())

    async def _read_key_sets(self) -> None:
        await self.key_sets.prefetch(self.credentials.issuers())

    async def _end_absent(self) -> None:
        if self.is_leading():
            await self.absences.look()
        else:
            self.absences.forget()

    async def _forget_audited(self) -> None:
        if self.is_leading():
            await self.auditor.forget_old()


def access_parts(
    core: Core, keyring: Keyring | None, destinations: Destinations, is_leading: Callable[[], bool]
) -> AccessParts:
    """Raises AuditKeyError."""
    settings, store, clock, auth = core.settings, core.store, core.clock, core.settings.auth

    def say_changed(version: int) -> None:
        store.signals.publish(CredentialsChanged(core.presence.instance, version))

    def say_ended(login_id: str) -> None:
        store.signals.publish(LoginEnded(core.presence.instance, login_id))

    async def present_nodes() -> set[str]:
        return set(await store.placements.all())

    keys = audit_keys(audit_key_path(settings), keyring)
    auditor = Auditor(store.audit, keys, core.presence.instance, settings.audit)
    anchored = audit_anchor_path(settings)
    memory = None if anchored is None else AnchorMemory(anchored)
    anchors = Anchors(store.audit, keys, settings.audit.anchor_every, is_leading, memory, clock)
    backup = credentials_path(settings)
    credentials = CredentialBook(
        store.credentials,
        wall_ms=wall_clock_ms,
        publish=say_changed,
        backup=None if backup is None else Backup(backup),
        keys_file=KeysFile(Path(auth.keys_file).expanduser()) if auth.keys_file else None,
    )
    key_sets = JwksCache(KeySets(destinations).fetch, clock)
    signer = TokenSigner(keyring, auth.audience, auth.max_token_ms) if keyring is not None else None
    tokens = TokenReader(credentials, auth.audience, auth.max_token_ms, signer, key_sets)
    cluster = cluster_audience(auth.audience, settings.redis.key_prefix)
    doorkeeper = Doorkeeper(credentials, NodeTokens(credentials, cluster, tokens), auth, wall_clock_ms, clock)
    doorkeeper.on_denied = auditor.denied
    live = LiveCallers(doorkeeper)
    logins = doorkeeper.logins = Logins(store.logins, auth, wall_clock_ms, clock, say_ended)
    logins.on_ended.append(live.look_at_all)
    return AccessParts(
        auditor,
        anchors,
        credentials,
        key_sets,
        signer,
        doorkeeper,
        live,
        logins,
        Enrolment(credentials, store.claims, wall_clock_ms),
        Absences(credentials, present_nodes, wall_clock_ms),
        cluster,
        is_leading,
        auth.refresh_ms / 1000,
    )


def wall_clock_ms() -> int:
    return int(wall_ms())
