"""Nodes connected to an instance without its sockets: what their peer hears is kept."""

from typing import Any

from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.services.attempts.assignments import Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.peers import CloseCode, NodePeer
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.cluster.leadership import Leadership
from lingua_scheduler.services.cluster.pool_map import PoolMapCopy
from lingua_scheduler.services.nodes.connected import ConnectedNodes, connected_nodes
from lingua_scheduler.services.nodes.links import NodeLink, NodeLinks
from lingua_scheduler.store.store import Store
from lingua_sdk.protocol.node import Hardware, LanguageCapabilities, NodeRegister
from lingua_sdk.protocol.shapes import Message
from tests.support.schedulers import settings_with
from tests.support.walls import Wall

ENGLISH_CHINESE = LanguageCapabilities(
    asr_languages=["en", "zh"], tts_languages=["en", "zh"], semantic_languages=["en", "zh"]
)


class Ear:
    """A peer that may be closed, and remembers why."""

    is_heard = True
    principal: Principal = LOCAL
    is_open = True

    def __init__(self, *, answers: bool = True) -> None:
        self.closed: list[CloseCode] = []
        self._answers = answers

    def post(self, _message: Message) -> bool:
        return True

    def post_frame(self, _payload: bytes) -> bool:
        return True

    def close(self, code: CloseCode, _reason: str) -> None:
        self.closed.append(code)

    async def answers(self, _within_s: float) -> bool:
        return self._answers


def connected_to(store: Store, **changed: Any) -> ConnectedNodes:
    settings = settings_with(**changed)
    pool_map = PoolMapCopy(store.pools, Leadership("i-here", store.pools, 1_000))
    endings = Endings("i-here", store.jobs, Assignments(lambda _step, _assignment: None), settings.nodes)
    return connected_nodes(store, NodeLinks("i-here"), pool_map, endings, settings)


def registration(node_id: str | None = "n1", **more: Any) -> NodeRegister:
    said: dict[str, Any] = {"language_capabilities": ENGLISH_CHINESE, "max_concurrent_jobs": 4} | more
    return NodeRegister(
        node_id=node_id,
        version="1",
        platform="test",
        hardware=Hardware(cpu_cores=1, memory_gb=1),
        installed_models=[],
        capability_by_type=[],
        features_supported={},
        accept_public_jobs=True,
        **said,
    )


async def registered(
    connected: ConnectedNodes, peer: NodePeer | None = None, link_id: str = "c1", **more: Any
) -> NodeLink:
    link = await connected.registry.register(peer or Wall(), link_id, registration(**more))
    assert isinstance(link, NodeLink)
    return link


async def refused(connected: ConnectedNodes, link_id: str = "c1", **more: Any) -> Refusal:
    refusal = await connected.registry.register(Ear(), link_id, registration(**more))
    assert isinstance(refusal, Refusal)
    return refusal
