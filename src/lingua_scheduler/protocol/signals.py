"""Signals between instances. A signal may be lost; the receiver then finds out later by itself."""

from enum import StrEnum

import msgspec

from lingua_scheduler.domain.jobs.attempts import Attempt


class CancelJob(msgspec.Struct, frozen=True, tag="cancel_job"):
    """A job of this owner was cancelled; Redis knows it already."""

    owner: str
    job_id: str


class JobsWait(msgspec.Struct, frozen=True, tag="jobs_wait"):
    """Jobs of this instance wait for a slot in these pools."""

    instance: str
    pools: list[str]


class SlotFreed(msgspec.Struct, frozen=True, tag="slot_freed"):
    """A slot of this pool became free, and no job waits for it here."""

    instance: str
    pool: str


class PoolsChanged(msgspec.Struct, frozen=True, tag="pools_changed"):
    """A node came, went or changed at this instance; the leader should look at the shards."""

    instance: str


class MapPublished(msgspec.Struct, frozen=True, tag="map_published"):
    """There is a new pool map."""

    instance: str
    version: int


class AttemptAdvanced(msgspec.Struct, frozen=True, tag="attempt_advanced"):
    """To the job's owner alone: the node has accepted or started it, or asked for more time."""

    attempt: Attempt
    # How long it has from now on, if the node asked for it.
    allowed_ms: int = 0


class PartialHeard(msgspec.Struct, frozen=True, tag="partial_heard"):
    """To the job's owner alone: what the node understood so far, as it said it."""

    attempt: Attempt
    frame: str


class DataLost(msgspec.Struct, frozen=True, tag="data_lost"):
    """Redis has lost its data: instances should write their nodes again."""

    instance: str


class NodeVerb(StrEnum):
    PING = "ping"  # does it still answer?
    SUPERSEDE = "supersede"  # it is connected elsewhere by now
    EVICT = "evict"  # an operator evicted it


class AskHolder(msgspec.Struct, frozen=True, tag="ask_holder"):
    """To the instance that holds a node's connection alone: see whether the node is there, or send it away."""

    instance: str
    node_id: str
    link: str
    verb: NodeVerb


class HolderSays(msgspec.Struct, frozen=True, tag="holder_says"):
    """The answer, only to the asking instance: whether the node still responds on that connection."""

    node_id: str
    link: str
    is_there: bool


class CredentialsChanged(msgspec.Struct, frozen=True, tag="credentials_changed"):
    """A key was created or revoked; Redis has version `version` of all of them."""

    instance: str
    version: int


class LoginEnded(msgspec.Struct, frozen=True, tag="login_ended"):
    """A person has logged out of the dashboard."""

    instance: str
    login_id: str


class RoomEvent(msgspec.Struct, frozen=True, tag="room_event"):
    """To an instance that has readers in a room: a caption, or that a member speaks, as its clients get it."""

    room: str
    frame: str


class RequestWithdrawn(msgspec.Struct, frozen=True, tag="request_withdrawn"):
    """To the instance to which an HTTP request was forwarded: its caller has left."""

    request_id: str


Signal = (
    DataLost
    | CancelJob
    | JobsWait
    | SlotFreed
    | PoolsChanged
    | MapPublished
    | AttemptAdvanced
    | PartialHeard
    | AskHolder
    | HolderSays
    | RequestWithdrawn
    | RoomEvent
    | CredentialsChanged
    | LoginEnded
)

DECODER = msgspec.json.Decoder(Signal)
