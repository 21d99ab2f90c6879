"""Presence: which instances are alive, by their beats on Redis's clock."""

from typing import NamedTuple

import msgspec
from redis.exceptions import ResponseError

from lingua_scheduler.domain.instances import ForgetOutcome, Instance, LeaveOutcome, PresenceOutcome
from lingua_scheduler.store.connection import Line, RedisAway, Reply
from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import CANNOT_WRITE, Scripts


class Me(NamedTuple):
    """An instance in its present life; `incarnation` tells it from another process with the same id."""

    instance_id: str
    incarnation: str
    host: str
    pid: int
    version: str
    started_at_ms: int
    address: str = ""


class Instances:
    def __init__(self, line: Line, keys: Keys, scripts: Scripts) -> None:
        self._keys = {"alive": keys.instances_alive, "about": keys.instances_about}
        self._figures = keys.figures
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
        return {
            instance: _instance(instance, silent_ms, about)
            for instance, silent_ms, about in zip(reply[::3], reply[1::3], reply[2::3], strict=True)
        }

    async def show(self, instance: str, figures: bytes) -> None:
        """Tell the others what this one counts."""
        try:
            await self._line.call("HSET", self._figures, instance, figures)
        except ResponseError as error:
            if not CANNOT_WRITE.search(str(error)):
                raise
            raise RedisAway(str(error)) from error

    async def shown(self) -> dict[str, str]:
        """What each of them told last; one that left told nothing."""
        flat = await self._line.call("HGETALL", self._figures)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    async def _beat(self, verb: str, me: Me, dead_ms: int) -> Reply:
        about = {name: value for name, value in me._asdict().items() if name not in ("instance_id", "incarnation")}
        return await self._scripts.run(
            "instance_beat",
            **self._keys,
            instance=me.instance_id,
            incarnation=me.incarnation,
            verb=verb,
            profile=msgspec.json.encode(about) if verb == "join" else "",
            dead_ms=dead_ms,
        )


def _instance(instance: str, silent_ms: int, about: str) -> Instance:
    incarnation, _, profile = about.partition(" ")
    said = msgspec.json.decode(profile)
    known = {name: said[name] for name in Instance._fields if name in said}
    return Instance(instance, max(0, silent_ms), incarnation, **known)
