"""One scheduler in this process: `lingua serve` without workers, or one of its workers.

Apart from the command, because a supervisor, a help text and a list of settings need none of what it imports."""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from lingua_scheduler.app import Inherited, Scheduler
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.serving.running import (
    fail_for_port,
    on_hangup,
    redis_url,
    stop_signals,
    unless_stopped,
    warn_if_open,
)
from lingua_scheduler.cli.serving.service_manager import ServiceManager
from lingua_scheduler.cli.serving.workers import tell_supervisor
from lingua_scheduler.configuration.data_dirs import cluster_key_path
from lingua_scheduler.gateway.sites import InternalPortError
from lingua_scheduler.gateway.tls_files import TlsFilesError
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.services.access.audit_key_files import AuditKeyError
from lingua_scheduler.services.access.first_keys import NoKeys
from lingua_scheduler.services.access.keys_file import KeysFileError
from lingua_scheduler.services.access.oidc import OidcUnusable
from lingua_scheduler.services.cluster.presence import IdTaken
from lingua_scheduler.services.cluster.seals import KeyFileError, load_or_make
from lingua_scheduler.services.rooms.relay_servers import RelaySecretError
from lingua_scheduler.setting_sections.instances import PrivacySettings
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store, StoreError, shown
from lingua_scheduler.supervisor.worker import Word
from lingua_scheduler.telemetry import logs, traces


def inherit(worker: int, descriptors: tuple[Sequence[int], Sequence[int]], run_dir: Path) -> Inherited:
    public, internal = (tuple(socket.socket(fileno=one) for one in group) for group in descriptors)
    return Inherited(worker, public, run_dir, internal)


async def serve_one(
    settings: Settings, inherited: Inherited | None = None, manager: ServiceManager | None = None
) -> None:
    """A worker has `inherited` its sockets, and its supervisor speaks to the service manager."""
    log = logs.get()
    if inherited is None:
        asked_to_stop = stop_signals()
        on_hangup(asked_to_stop, _decline_replacement)
        warn_if_open(settings)
    else:
        # The kernel may signal the death of the supervisor twice; a supervisor that must be fast uses SIGKILL.
        asked_to_stop = stop_signals(at_once=lambda: None)
    async with AsyncExitStack() as stack:
        store = await _open_store(await redis_url(settings, stack), settings, asked_to_stop)
        if store is None:
            return
        stack.push_async_callback(store.close)
        if (tracing := traces.configure(traces.SCHEDULER, os.environ)) is not None:
            stack.push_async_callback(tracing.close)
        scheduler = _scheduler(settings, store, inherited, tracing)
        scheduler.presence.on_superseded = asked_to_stop.set
        try:
            await scheduler.start()
        except (IdTaken, KeysFileError, NoKeys, TlsFilesError) as error:
            fail(str(error), Exit.SETTINGS)
        except (RedisAway, StoreError) as error:
            fail(str(error), Exit.REDIS)
        except OSError as error:
            fail_for_port(error, settings.server, is_internal=isinstance(error, InternalPortError))
        stack.push_async_callback(scheduler.stop)
        if inherited is None:
            on_hangup(asked_to_stop, lambda: _reload(scheduler))
            log.info("scheduler.ready", address=scheduler.address, redis=store.version)
        else:
            tell_supervisor(Word(redis=store.version))
        if manager is not None:
            stack.callback(manager.close)
            manager.ready("serving")
        await asked_to_stop.wait()
        if manager is not None:
            manager.stopping()


def _scheduler(
    settings: Settings, store: Store, inherited: Inherited | None, tracing: traces.Traces | None
) -> Scheduler:
    try:
        return Scheduler(settings, store, inherited=inherited, traces=tracing, keyring=_keyring(settings))
    except OidcUnusable as error:
        fail(str(error), Exit.SETTINGS)
    except AuditKeyError as error:
        fail(f"{error}; correct audit.key_file", Exit.SETTINGS)
    except RelaySecretError as error:
        fail(str(error), Exit.SETTINGS)


def _keyring(settings: Settings) -> Keyring | None:
    """The default file is done without where it cannot be made: an instance alone needs none."""
    path, privacy = cluster_key_path(settings), settings.privacy
    if privacy.seal_letters == "never" or path is None:
        if privacy.seal_letters == "always":
            fail("privacy.seal_letters = always requires privacy.cluster_key_file; set it to a file", Exit.SETTINGS)
        return None
    try:
        return load_or_make(path)
    except KeyFileError as error:
        if privacy.seal_letters == "always" or privacy != PrivacySettings(share_context=privacy.share_context):
            fail(f"{error}; correct privacy.cluster_key_file", Exit.SETTINGS)
        logs.get().warning("cluster_key.none", reason=str(error))
        return None


def _reload(scheduler: Scheduler) -> None:
    scheduler.reload_tls()
    _decline_replacement()


def _decline_replacement() -> None:
    note = "a single process reloads its TLS files, but not its settings; restart it, or run with --workers 2"
    logs.get().warning("server.not_replaced", note=note)


async def _open_store(url: str, settings: Settings, asked_to_stop: asyncio.Event) -> Store | None:
    try:
        return await unless_stopped(_opened(url, settings), asked_to_stop)
    except RedisAway as error:
        fail(
            f"Redis at {shown(url)} cannot be reached: {str(error).rstrip('.')}. "
            "Start it, correct --redis-url, or add --wait-for-redis",
            Exit.REDIS,
        )
    except StoreError as error:
        fail(str(error), Exit.REDIS)


async def _opened(url: str, settings: Settings) -> Store:
    log = logs.get()
    store = Store(
        url,
        key_prefix=settings.redis.key_prefix,
        timeout_ms=settings.redis.timeout_ms,
        max_pending=settings.redis.max_pending,
        allow_eviction=settings.redis.allow_eviction,
    )
    await store.open(wait=settings.redis.wait, on_wait=lambda reason: log.warning("redis.awaited", reason=reason))
    return store
