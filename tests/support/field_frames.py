"""Frames of the existing node as recorded: the same fields, in the same order."""

from typing import Any

from tests.support.peers import Frame

LANGUAGES = ("zh", "en", "ja", "ko", "fr", "de", "es", "it", "pt", "ru", "ar", "hi", "th", "vi")
LID_NOT_LOADED = (
    "LID model not loaded: 请设置 lid.modelPath 指向 Sherpa-ONNX 模型目录"
    "（含 tiny-encoder.int8.onnx / tiny-decoder.int8.onnx）"
)
_SERVICES = (("faster-whisper-vad", "asr"), ("nmt-m2m100", "nmt"), ("piper-tts", "tts"))
_FEATURES = (
    "emotion_detection",
    "voice_style_detection",
    "speech_rate_detection",
    "speech_rate_control",
    "speaker_identification",
    "persona_adaptation",
)
NO_FEATURES = dict.fromkeys(_FEATURES, False)


def _services() -> list[Frame]:
    return [
        {"service_id": name, "type": kind, "device": "gpu", "status": "running", "version": "1.0.0"}
        for name, kind in _SERVICES
    ]


def _capabilities() -> list[Frame]:
    return [{"type": kind, "ready": True, "devices": ["gpu"]} for _, kind in _SERVICES]


def _languages(codes: tuple[str, ...]) -> Frame:
    return {
        "asr_languages": list(codes),
        "tts_languages": list(codes),
        "semantic_languages": list(codes),
        "semantic_core_ready": True,
    }


def registration(node_id: str | None, codes: tuple[str, ...] = LANGUAGES) -> Frame:
    return {
        "type": "node_register",
        "node_id": node_id,
        "version": "2.0.0",
        "capability_schema_version": "2.0",
        "platform": "linux",
        "hardware": {"cpu_cores": 2, "memory_gb": 24},
        "installed_models": [],
        "installed_services": _services(),
        "capability_by_type": _capabilities(),
        "features_supported": dict(NO_FEATURES),
        "accept_public_jobs": True,
        "language_capabilities": _languages(codes),
    }


def heartbeat(node_id: str, codes: tuple[str, ...], usage: Frame, timestamp_ms: int, *, has_worked: bool) -> Frame:
    efficiencies = {"faster-whisper-vad": 65.4, "nmt-m2m100": 2527.8, "piper-tts": 50.4}
    reruns = ("totalReruns", "successfulReruns", "failedReruns", "timeoutReruns", "qualityImprovements")
    worked = {"processing_metrics": {"serviceEfficiencies": efficiencies}} if has_worked else {}
    return {
        "type": "node_heartbeat",
        "node_id": node_id,
        "timestamp": timestamp_ms,
        "resource_usage": {"cpu_percent": 34, "gpu_percent": 0, "mem_percent": 18.24} | usage,
        "installed_services": _services(),
        "capability_by_type": _capabilities(),
        "language_capabilities": _languages(codes),
        "rerun_metrics": dict.fromkeys(reruns, 0),
    } | worked


def failure(job: Frame, node_id: str, message: str, processing_ms: int) -> Frame:
    return _about(job, node_id, success=False) | {
        "processing_time_ms": processing_ms,
        "error": {"code": "PROCESSING_ERROR", "message": message},
        "trace_id": job["trace_id"],
    }


def result(job: Frame, node_id: str, texts: Frame, extra: Frame, processing_ms: int) -> Frame:
    """`texts` are text_asr, text_translated, tts_audio; `extra` what `about_audio` says of it."""
    audio_ms = extra["asr_diagnostics"]["audio_segmentation"]["audio_ms"]
    return (
        _about(job, node_id, success=True)
        | texts
        | {
            "tts_format": "opus",
            "extra": extra,
            "processing_time_ms": processing_ms,
            "trace_id": job["trace_id"],
        }
        | _quality(audio_ms, is_empty=not texts["text_asr"])
    )


def about_audio(job: Frame, node_id: str, language: str, text: str, audio_ms: int) -> Frame:
    """The `extra` of a result, with the fields that nobody reads too."""
    spoken: dict[str, Any] = {"language_probability": None, "language_probabilities": None}
    if language:
        spoken = {"language_probability": 0.97, "language_probabilities": {language: 0.97}}
    if job["src_lang"] == "auto":
        spoken["detected_src_lang"] = language or job.get("lang_a")
    recognised = {"asr_service_id": "faster-whisper-vad"} if language else {}
    if text:
        recognised |= {"raw_asr_text": text, "asr_merge_probe_text": text}
    profile = {"primaryDomain": "general", "profileVersion": "general-v1"}
    return (
        spoken
        | {"audioBuffered": False}
        | recognised
        | {
            "asr_diagnostics": {"audio_segmentation": {"node_audio_segment_count": 1, "audio_ms": audio_ms}},
            "configLoadSucceeded": True,
            "configParseError": None,
            "runtimeFeatureDowngrade": False,
            "downgradedFeatures": [],
            "sessionId": job["session_id"],
            "assignedNodeId": node_id,
            "intentLastOutcome": "disabled",
            "activeProfile": profile,
            "duplicate_sanitize": {
                "applied": False,
                "rule": "none",
                "beforeLength": len(text),
                "afterLength": len(text),
            },
            "lexicon_runtime_status": "missing",
            "lexicon_manifest_version": None,
            "lexicon_runtime_error": "Lexicon V2 bundle directory not found",
        }
    )


def _about(job: Frame, node_id: str, *, success: bool) -> Frame:
    return {
        "type": "job_result",
        "job_id": job["job_id"],
        "attempt_id": job["attempt_id"],
        "node_id": node_id,
        "session_id": job["session_id"],
        "utterance_index": job["utterance_index"],
        "success": success,
    }


def _quality(audio_ms: int, *, is_empty: bool) -> Frame:
    if is_empty:
        level, codes, score, count, seconds = "bad", ["low_quality_audio"], 0.0, 0, 0.0
    else:
        codes = [f"AVG_SEGMENT_DURATION_LONG_{audio_ms / 1000:.1f}s"] if audio_ms > 5_000 else []
        codes += ["LONG_AUDIO_FEW_SEGMENTS"] if audio_ms > 2_000 else []
        level, score = ("bad", 0.5 if len(codes) == 2 else 0.7) if codes else ("good", 1.0)
        count, seconds = 1, audio_ms / 1000
    return {
        "asr_quality_level": level,
        "reason_codes": codes,
        "quality_score": score,
        "rerun_count": 0,
        "segments_meta": {"count": count, "max_gap": 0, "avg_duration": seconds},
    }
