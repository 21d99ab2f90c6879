"""HTTP about instances and dead letters."""

from collections.abc import Iterable

from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.domain.cluster.instances import is_letter_id
from lingua_scheduler.protocol.http_instances import (
    DeadLetterList,
    DeadLetterQuery,
    InstanceList,
    LetterChoice,
    Purged,
    Replayed,
)
from lingua_scheduler.services.cluster import dead_letters
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.cluster.inbox import limits_of
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.errors import ErrorCode

_BAD_CHOICE = KnownProblem(400, ErrorCode.INVALID_MESSAGE.value, "The body names no letters, or an invalid letter id")


def instance_operations(store: Store, settings: Settings) -> Iterable[Operation]:
    async def list_instances(_: Call[None, None]) -> InstanceList:
        return await dead_letters.list_instances(store, settings.instances.dead_ms)

    async def list_dead_letters(call: Call[None, DeadLetterQuery]) -> DeadLetterList:
        return await dead_letters.list_dead_letters(store, call.query.limit)

    async def replay(call: Call[LetterChoice, None]) -> Replayed:
        return await dead_letters.replay(store, _chosen(call.body), limits_of(settings.inbox))

    async def purge(call: Call[LetterChoice, None]) -> Purged:
        return Purged(purged=await dead_letters.purge(store, _chosen(call.body)))

    return (
        Operation(
            method="GET",
            path="/v1/instances",
            needs=(Scope.CLUSTER_READ,),
            tag="instances",
            summary="List all instances, alive, stopped or dead, with their inboxes",
            handle=list_instances,
            answer=InstanceList,
        ),
        Operation(
            method="GET",
            path="/v1/dead-letters",
            needs=(Scope.CLUSTER_READ,),
            tag="instances",
            summary="List dead letters: messages between instances that could not be handled",
            handle=list_dead_letters,
            answer=DeadLetterList,
            query=DeadLetterQuery,
        ),
        Operation(
            method="POST",
            path="/v1/dead-letters/replay",
            needs=(Scope.CLUSTER_OPERATE,),
            tag="instances",
            summary="Replay dead letters: put them back into their inboxes",
            handle=replay,
            answer=Replayed,
            body=LetterChoice,
            problems=(_BAD_CHOICE,),
        ),
        Operation(
            method="POST",
            path="/v1/dead-letters/purge",
            needs=(Scope.CLUSTER_OPERATE,),
            tag="instances",
            summary="Delete dead letters permanently",
            handle=purge,
            answer=Purged,
            body=LetterChoice,
            problems=(_BAD_CHOICE,),
        ),
    )


def _chosen(choice: LetterChoice) -> list[str] | None:
    if choice.all:
        return None
    if not choice.letter_ids:
        raise Problem(400, ErrorCode.INVALID_MESSAGE.value, 'name letters in "letter_ids", or set "all": true')
    for letter_id in choice.letter_ids:
        if not is_letter_id(letter_id):
            raise Problem(400, ErrorCode.INVALID_MESSAGE.value, f"{letter_id[:100]} is not the id of a dead letter")
    return choice.letter_ids
