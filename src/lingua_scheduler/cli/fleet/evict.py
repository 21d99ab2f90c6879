"""`lingua evict` and `lingua release`"""

import asyncio
import json
import os
import secrets
import socket
import time
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import click

from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.redis_access import redis_options, with_store
from lingua_scheduler.domain.cluster.instances import made_up_id
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.nodes import ReleaseOutcome
from lingua_scheduler.protocol.signals import HolderSays, Signal
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.services.nodes.eviction import evict_from_outside
from lingua_scheduler.services.nodes.holders import Holders
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.store.cluster.instances import Me
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry.tasks import Nursery

# Without the answer of the instance that holds the node it is evicted all the same, and asked a few times.
LISTEN_WITHIN_S = 2.0


@click.command()
@click.argument("node_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def evict(node_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """Remove a node at once and close its connection.

    Its jobs are retried on other nodes. The node may connect again: to keep it away, stop it or drain it.

    \b
    lingua evict node-1A2B3C4D
    """
    instances = load_settings(config, {}, ()).settings.instances

    async def work(store: Store) -> list[Attempt] | None:
        me = _someone()
        presence = Presence(me, store, instances)
        holders = Holders(NodeLinks(me.instance_id), presence, store.signals, instances.beat_ms)
        listening = Nursery("evict")
        handlers = dict.fromkeys(get_args(Signal), _ignore) | {HolderSays: holders.answered}
        listening.start(store.signals.listen(handlers, me.instance_id))
        try:
            async with asyncio.timeout(LISTEN_WITHIN_S):
                await store.signals.listening.wait()
        except TimeoutError:
            pass  # the instance is told, but its answer is not heard
        try:
            return await evict_from_outside(store, holders, node_id, me.instance_id)
        finally:
            await listening.close()

    lost = with_store(work, redis_url, data_dir, config, writes=True, notes=("nodes.evict", node_id))
    if lost is None:
        fail(f"there is no node {node_id}; lingua nodes lists them", Exit.SETTINGS)
    jobs = sorted(attempt.job_id for attempt in lost)
    if as_json:
        click.echo(json.dumps({"node_id": node_id, "outcome": "evicted", "jobs": jobs}))
        return
    retried = (
        f"{len(jobs)} {'job is' if len(jobs) == 1 else 'jobs are'} retried elsewhere" if jobs else "it had no jobs"
    )
    click.echo(f"{node_id} is evicted; {retried}. It may connect again")


@click.command()
@click.argument("node_id")
@redis_options
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def release(node_id: str, redis_url: str | None, data_dir: str | None, config: Path | None, as_json: bool) -> None:
    """End a node's quarantine now: it gets jobs again.

    The failures that led to it are forgotten. If the node goes on failing, it is quarantined again.

    \b
    lingua release node-1A2B3C4D
    """

    async def work(store: Store) -> ReleaseOutcome:
        return await store.nodes.release(node_id)

    outcome = with_store(work, redis_url, data_dir, config, writes=True, notes=("nodes.release", node_id))
    if outcome is ReleaseOutcome.GONE:
        fail(f"there is no node {node_id}; lingua nodes lists them", Exit.SETTINGS)
    if as_json:
        click.echo(json.dumps({"node_id": node_id, "outcome": outcome.value}))
        return
    click.echo(f"{node_id} {'is in no quarantine' if outcome is ReleaseOutcome.KEPT else 'is out of quarantine'}")


def _ignore(_: object) -> None:
    """A signal to the instances."""


def _someone() -> Me:
    """A name to be answered under; it joins nothing."""
    host, pid = socket.gethostname(), os.getpid()
    name = made_up_id(host, pid, secrets.token_hex(3))
    return Me(name, secrets.token_hex(8), host, pid, version("lingua-scheduler"), int(time.time() * 1000))
