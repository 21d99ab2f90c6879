"""Settings of several instances: heartbeats, letters between them and their encryption."""

from typing import Annotated, Literal

import msgspec

from lingua_scheduler.setting_sections.kinds import Bytes, Count, KeepMs, Percent, PeriodMs, UpToThousand, WaitMs, doc

SealLetters = Literal["auto", "always", "never"]


class InstancesSettings(msgspec.Struct, frozen=True, kw_only=True):
    beat_ms: Annotated[PeriodMs, doc("Interval of an instance's heartbeat in Redis")] = 2000
    dead_ms: Annotated[
        PeriodMs, doc("Time without a heartbeat after which an instance is dead and others adopt its inbox")
    ] = 6000
    forget_ms: Annotated[
        PeriodMs, doc("Time without a heartbeat after which a dead instance with an empty inbox is forgotten")
    ] = 600_000
    rebalance_ms: Annotated[
        WaitMs,
        doc(
            "Interval at which an instance with too many peers asks a few idle nodes and quiet sessions to connect "
            "again, so that they spread over all instances; 0 = never"
        ),
    ] = 10_000
    rebalance_percent: Annotated[
        Percent, doc("How many more nodes or sessions than the mean of all instances one may have before it does so")
    ] = 20


class InboxSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_length: Annotated[
        Count, doc("Maximum letters (messages between instances) in an inbox; further ones are rejected")
    ] = 10_000
    max_bytes: Annotated[Bytes, doc("Maximum memory of an inbox in Redis; further letters are rejected")] = 268_435_456
    max_deliveries: Annotated[UpToThousand, doc("Attempts to handle a letter before it becomes a dead letter")] = 5
    handle_timeout_ms: Annotated[PeriodMs, doc("Maximum time for one attempt to handle a letter")] = 4000
    retry_ms: Annotated[PeriodMs, doc("Delay before a letter that was not handled is retried")] = 5000
    keep_ms: Annotated[KeepMs, doc("Time for which unread letters and dead letters are kept")] = 86_400_000
    keep_speech: Annotated[
        bool, doc("Keep speech and text in dead letters, so that orders and results can be replayed")
    ] = False


class PrivacySettings(msgspec.Struct, frozen=True, kw_only=True):
    cluster_key_file: Annotated[
        str,
        doc(
            "File with the keys that encrypt letters between instances; every instance needs the same one. "
            "Created at the first start. A bare file name is relative to `redis.data_dir`; empty = no key"
        ),
    ] = "cluster.key"
    seal_letters: Annotated[
        SealLetters, doc("Encrypt letters between instances: auto = once every live instance has the key")
    ] = "auto"
    share_context: Annotated[
        bool,
        doc(
            "Give a node the words before an utterance also if another node recognised them. Two nodes can then tell "
            "that they serve the same conversation"
        ),
    ] = False
