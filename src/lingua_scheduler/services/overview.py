"""What the scheduler looks like right now, for people and pages."""

import time
from typing import Any

import msgspec

from lingua_scheduler.domain.jobs import ENDED
from lingua_scheduler.services.registry import Registry
from lingua_scheduler.services.sessions import Sessions
from lingua_scheduler.services.waiting import WaitingRoom
from lingua_scheduler.store.nodes import NodeView
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics


class Overview:
    def __init__(
        self, instance: str, version: str, store: Store, registry: Registry, sessions: Sessions, waiting: WaitingRoom
    ) -> None:
        self._instance = instance
        self._version = version
        self._store = store
        self._registry = registry
        self._sessions = sessions
        self._waiting = waiting
        self._started_at = time.monotonic()

    async def status(self) -> dict[str, Any]:
        """This instance, and the fleet as Redis knows it."""
        nodes = await self.nodes()
        return {
            "instance_id": self._instance,
            "version": self._version,
            "uptime_seconds": round(time.monotonic() - self._started_at, 1),
            "redis": {"version": self._store.version, "url": self._store.url, "ready": self._store.is_ready},
            "sessions": len(self._sessions),
            "nodes_connected": len(self._registry),
            "jobs_waiting": len(self._waiting),
            "jobs_ended": {state.value: _ended(state.value) for state in ENDED},
            "slots": {
                "total": sum(node["max_jobs"] for node in nodes),
                "taken": sum(node["held"] for node in nodes),
            },
            "nodes": nodes,
        }

    async def nodes(self) -> list[dict[str, Any]]:
        return [_node(view) for view in await self._store.nodes.view()]

    async def pools(self) -> dict[str, Any]:
        """Every pair with its nodes, as speech and as text."""
        pairs: dict[str, dict[str, int]] = {}
        for pool, shards in (await self._store.pools.build_map()).nodes.items():
            src, tgt, facet = pool.split(":")
            pairs.setdefault(f"{src}:{tgt}", {})[facet] = sum(shards.values())
        return {"pairs": dict(sorted(pairs.items()))}


def _ended(state: str) -> int:
    return int(metrics.REGISTRY.get_sample_value("lingua_jobs_ended_total", {"state": state}) or 0)


def _node(view: NodeView) -> dict[str, Any]:
    said = msgspec.json.decode(view.profile)
    now_ms = int(time.time() * 1000)
    return {
        "node_id": view.node_id,
        "state": view.state,
        "shard": view.shard,
        "max_jobs": view.max_jobs,
        "held": view.held,
        "free": view.free,
        "alive_until_ms": view.alive_until_ms,
        "quarantined_for_ms": view.quarantined_for_ms(now_ms),
        "unavailable_for_ms": view.unavailable_for_ms(now_ms),
        "pairs": sorted({pool.rsplit(":", 1)[0] for pool in view.pools}),
        "version": said.get("version", ""),
        "platform": said.get("platform", ""),
        "services": said.get("services", []),
    }
