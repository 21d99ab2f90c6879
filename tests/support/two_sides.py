"""Two instances without sockets and HTTP: the owner of jobs, and the one that holds the node which runs them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.protocol.signals import AttemptAdvanced, PartialHeard
from lingua_scheduler.services.attempts.assignments import Assignments, AttemptStep
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.trails import Trails
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.dispatch.relay import Relay
from lingua_scheduler.services.nodes.connected import connected_nodes
from lingua_scheduler.services.nodes.links import NodeLinks
from lingua_scheduler.store.store import Store
from lingua_sdk.protocol.node import AsrPartial
from lingua_sdk.protocol.shapes import Message
from tests.support.connected import Ear
from tests.support.mail import Office
from tests.support.schedulers import settings_with


class Telling(Ear):
    """A node's socket that keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self.frames: list[bytes] = []

    def post(self, message: Message) -> bool:
        self.messages.append(message)
        return self.is_open

    def post_frame(self, payload: bytes) -> bool:
        self.frames.append(payload)
        return self.is_open


class Side:
    """One instance: its letters, its nodes, its attempts."""

    def __init__(self, store: Store, instance: str, keyring: Keyring | None, trails: Trails | None = None) -> None:
        settings = settings_with()
        self.store = store
        self.mailroom = Office(store, instance, keyring).mailroom
        self.steps: list[tuple[AttemptStep, Attempt]] = []
        self.partials: list[tuple[str, str]] = []
        self.freed: list[Attempt] = []
        self.assignments = Assignments(lambda step, assignment: self.steps.append((step, assignment.attempt)))
        self.endings = Endings(instance, store.jobs, self.assignments, settings.nodes)
        self.endings.on_freed = self.freed.append
        self.links = NodeLinks(instance)
        pool_map = PoolMapCopy(store.pools, Leadership(instance, store.pools, 1_000))
        self.connected = connected_nodes(store, self.links, pool_map, self.endings, settings)
        self.relay = Relay(
            self.mailroom,
            store,
            self.links,
            self.endings,
            self.assignments,
            lambda work, partial: self.partials.append((work.session_id, partial.text)),
            trails,
        )
        self.endings.tell_lost = self.relay.tell_lost
        self.instance = instance

    @property
    def handlers(self) -> dict[type[Any], Any]:
        return {AttemptAdvanced: self.relay.advanced, PartialHeard: self.relay.heard}


@asynccontextmanager
async def side(
    store: Store, instance: str, keyring: Keyring | None = None, trails: Trails | None = None
) -> AsyncIterator[Side]:
    opened = Side(store, instance, keyring, trails)
    await opened.mailroom.start()
    listening = asyncio.create_task(store.signals.listen(opened.handlers, instance))
    try:
        await store.signals.listening.wait()
        yield opened
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await opened.relay.letters.close()
        await opened.mailroom.stop()


def partial_of(attempt: Attempt, text: str) -> AsrPartial:
    return AsrPartial(
        job_id=attempt.job_id,
        node_id=attempt.node_id,
        session_id="s-00000001",
        utterance_index=0,
        text=text,
        is_final=False,
        trace_id="t",
    )
