"""Fake nodes that take text: each says by its answer what it was given, and in which language."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from tests.support.peers import FakeNode, Frame, result_of

HEARD = "words"
MS = {"asr": 100, "nmt": 20, "tts": 30}


def able(
    asr: Sequence[str] = (), nmt: Sequence[str] = (), tts: Sequence[str] = (), text: bool = True
) -> dict[str, Any]:
    """What such a node registers with; `nmt` as pairs, such as zh-en."""
    kinds = {"asr": asr, "semantic": asr, "nmt": nmt, "tts": tts}
    return {
        "advanced_features": ["text_input"] if text else [],
        "capability_by_type": [{"type": kind, "ready": bool(said)} for kind, said in kinds.items()],
        "language_capabilities": {
            "asr_languages": list(asr),
            "semantic_languages": list(asr),
            "tts_languages": list(tts),
            "nmt_capabilities": [dict(zip(("src", "tgt"), pair.split("-"), strict=True)) for pair in nmt] or None,
        },
    }


def made_of(job: Frame) -> Frame:
    """en(words) is what was heard in English; pt[en(words)] its spoken translation into Portuguese."""
    does, src, tgt = job["pipeline"], job["src_lang"], job["tgt_lang"]
    text = f"{src}({HEARD})" if does["use_asr"] else job["text_input"]
    translated = f"{tgt}[{text}]" if does["use_nmt"] else ""
    took_ms = sum(ms for stage, ms in MS.items() if does[f"use_{stage}"])
    spoken = b64encode((translated or text).encode()).decode() if does["use_tts"] else ""
    made: Frame = {"text_translated": translated, "tts_audio": spoken, "processing_time_ms": took_ms}
    return made | ({"text_asr": text} if does["use_asr"] else {"text_asr": None})


async def do(node: FakeNode, job: Frame) -> None:
    await node.socket.send(result_of(job, node.node_id, **made_of(job)))


async def fail(node: FakeNode, job: Frame) -> None:
    error = {"code": "PROCESSING_ERROR", "message": "broken"}
    await node.socket.send(result_of(job, node.node_id, success=False, error=error))
