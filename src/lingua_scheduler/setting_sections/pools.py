"""Settings of language pairs: which nodes serve them, and which of those gets a job."""

from typing import Annotated, Literal

import msgspec

from lingua_scheduler.setting_sections.kinds import PeriodMs, Texts, UpToThousand, doc

Admission = Literal["strict", "asr_tts", "asr_semantic"]
Affinity = Literal["turn", "session"]


class PoolsSettings(msgspec.Struct, frozen=True, kw_only=True):
    admission: Annotated[
        Admission,
        doc(
            "Which of a node's languages admit it to a language pair. `strict`: it recognises (ASR) and repairs "
            "(semantic) the source and translates into the target. `asr_tts`: it recognises the source, speaks "
            "the target (TTS) and repairs any language. `asr_semantic`: it recognises the source and repairs the "
            "target"
        ),
    ] = "strict"
    wanted: Annotated[
        Texts,
        doc(
            "Language pairs that must always be served, such as `en:pt` (or `en:pt:text`, without speech): an alarm is "
            "raised when no node serves one. `history` = all pairs asked for in the last 7 days. Pairs asked for in "
            "the last hour always count"
        ),
    ] = ()
    pivot_langs: Annotated[
        Texts,
        doc(
            "Languages by way of which a pair is translated that no node serves, the first that works, such as `en`: "
            "zh→en, then en→ja. Needs nodes that take text (`text_input`). Empty = never. Clients are told, "
            "and may forbid it (`allow_pivot: false`)"
        ),
    ] = ()
    text_fallback: Annotated[
        bool, doc("true = if no node speaks the target language, the client gets the text without speech, and is told")
    ] = False
    private_only: Annotated[
        Texts,
        doc(
            "Tenants whose jobs go to their private nodes alone: without one that serves the pair they fail. Jobs of "
            "other tenants go to their private nodes first, if there are any, and to public ones if those are full or "
            "do not serve the pair. To be the same on all instances"
        ),
    ] = ()
    shard_size: Annotated[UpToThousand, doc("Maximum nodes per shard")] = 100
    max_shards: Annotated[UpToThousand, doc("Maximum shards")] = 1000
    refresh_ms: Annotated[PeriodMs, doc("Interval at which an instance checks for a newer pool map")] = 10_000
    leader_ms: Annotated[
        PeriodMs, doc("Leader election: lease time of the leader. If it does not renew, another instance takes over")
    ] = 6000


class SelectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    sample_k: Annotated[UpToThousand, doc("Nodes sampled for a job before the whole shard is searched")] = 20
    affinity: Annotated[
        Affinity, doc("What stays on one node while it can: the utterances of a `turn`, or of a whole `session`")
    ] = "turn"
    affinity_ttl_ms: Annotated[PeriodMs, doc("Time for which the node of a caller's affinity key is remembered")] = (
        600_000
    )
