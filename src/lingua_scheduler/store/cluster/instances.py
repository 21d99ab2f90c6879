"""Membership in Redis: which instances are alive, by their heartbeats on Redis's clock."""

from typing import Any, NamedTuple

import msgspec

from lingua_scheduler.domain.cluster.instances import ForgetOutcome, Instance, LeaveOutcome, PresenceOutcome
from lingua_scheduler.domain.watching.figures import Figures
from lingua_scheduler.store.connection import RedisLine, Reply
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.reading import is_instance, is_text
from lingua_scheduler.store.scripts import Scripts
from lingua_scheduler.store.unreadable import UnreadableKeys
from lingua_sdk.domain.decoding import DECODE_ERRORS

CLOCK_TOLERANCE_MS = 1_000


class Me(NamedTuple):
    """An instance in its present life; `incarnation` tells it from another process with the same id."""

    instance_id: str
    incarnation: str
    host: str
    pid: int
    version: str
    started_at_ms: int
    address: str = ""
    seals: str = ""
    abilities: str = ""


class Instances:
    def __init__(self, line: RedisLine, keys: Keys, scripts: Scripts, unreadable: UnreadableKeys) -> None:
        self._unreadable = unreadable
        self._keys = {"alive": keys.instances_alive, "about": keys.instances_about}
        self._figures = keys.figures
        self._turn = keys.turn
        self._line = line
        self._scripts = scripts

    async def join(self, me: Me, dead_ms: int) -> tuple[PresenceOutcome, int]:
        """Announce an instance. Its inbox must exist: from now on there may be mail. With `taken`: the other's beat."""
        reply = await self._beat("join", me, dead_ms)
        return PresenceOutcome(reply[0]), reply[1] if len(reply) > 1 else 0

    async def beat(self, me: Me, dead_ms: int) -> PresenceOutcome:
        return PresenceOutcome((await self._beat("beat", me, dead_ms))[0])

    async def leave(self, me: Me, dead_ms: int) -> LeaveOutcome:
        reply = await self._scripts.run(
            "instance_leave",
            **self._keys,
            figures=self._figures,
            instance=me.instance_id,
            incarnation=me.incarnation,
            dead_ms=dead_ms,
        )
        return LeaveOutcome(reply[0])

    async def forget(self, instance: str, forget_ms: int) -> ForgetOutcome:
        reply = await self._scripts.run(
            "instance_forget", **self._keys, figures=self._figures, instance=instance, forget_ms=forget_ms
        )
        return ForgetOutcome(reply[0])

    async def known(self) -> dict[str, Instance]:
        """All that are known, dead or alive, in one call."""
        reply = await self._scripts.run("instances_list", **self._keys)
        found = {}
        for name, silent_ms, about in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
            instance = _instance(name, silent_ms, about) if is_instance(name) else None
            if instance is None:
                self._unreadable.met("about", name)
            else:
                found[name] = instance
        return found

    async def take_turn(self, instance: str, turn_ms: int) -> bool:
        """Whether this instance may send peers elsewhere: one of all may, once in this time."""
        return bool(await self._line.call("SET", self._turn, instance, "NX", "PX", turn_ms))

    async def show(self, instance: str, figures: bytes) -> None:
        """Tell the others what this one counts."""
        await self._line.call("HSET", self._figures, instance, figures)

    async def shown(self) -> dict[str, str]:
        """What each of them told last; one that left told nothing."""
        flat = await self._line.call("HGETALL", self._figures)
        shown = dict(zip(flat[::2], flat[1::2], strict=True))
        readable = {name: text for name, text in shown.items() if is_instance(name) and is_text(text)}
        self._unreadable.met("figures", self._figures, len(shown) - len(readable))
        return readable

    async def _beat(self, verb: str, me: Me, dead_ms: int) -> Reply:
        about = {name: value for name, value in me._asdict().items() if name not in ("instance_id", "incarnation")}
        return await self._scripts.run(
            "instance_beat",
            **self._keys,
            figures=self._figures,
            instance=me.instance_id,
            incarnation=me.incarnation,
            verb=verb,
            profile=msgspec.json.encode(about) if verb == "join" else "",
            dead_ms=dead_ms,
            counted=msgspec.json.encode(Figures(life=me.incarnation, at_ms=me.started_at_ms)) if verb == "join" else "",
        )


# The profile of an instance; other releases may have other fields.
_ABOUT = msgspec.json.Decoder(dict[str, Any])


def _instance(instance: str, silent_ms: int, about: str) -> Instance | None:
    incarnation, _, profile = about.partition(" ")
    try:
        said = _ABOUT.decode(profile)
    except DECODE_ERRORS:
        return None
    defaults = Instance._field_defaults
    known = {name: said[name] for name, default in defaults.items() if type(said.get(name)) is type(default)}
    # A heartbeat in the future is from before the clock was set back: live instances have sent one since.
    silent_ms = max(0, silent_ms) if silent_ms > -CLOCK_TOLERANCE_MS else -silent_ms
    return Instance(instance, silent_ms, incarnation, **known)
