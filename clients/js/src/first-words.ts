// What a session is opened with, and whole utterances that ask for the same.
import { toBase64 } from "./frames.js";
import type { ClientMessage, PipelineChoice, SessionInit, TranslationResult, Utterance } from "./messages.js";

const VERSION = "lingua-js-1";
const SAMPLE_RATE = 16_000;
const TEXT_ALONE: PipelineChoice = { use_asr: true, use_nmt: true, use_tts: false };

export interface SessionWishes {
  /** The language that is spoken, such as `en`, and that of the translation. */
  source: string;
  target: string;
  /** Two people speak, each in one of these two languages. */
  bothWays?: [string, string];
  /** Also what was understood so far, while a sentence is being spoken. */
  partials?: boolean;
  /** Other fields of the message `session_init` (docs/protocol.md). */
  init?: Partial<SessionInit>;
}

export interface UtteranceOptions {
  format?: "pcm16" | "opus";
  /** False: the translation is text alone. */
  speech?: boolean;
}

export function initOf({ source, target, bothWays, partials = false, init }: SessionWishes): SessionInit {
  return {
    type: "session_init",
    client_version: VERSION,
    platform: "document" in globalThis ? "web" : "node",
    src_lang: bothWays ? "auto" : source,
    tgt_lang: target,
    enable_streaming_asr: partials,
    use_binary_frame: true,
    ...(bothWays ? { mode: "two_way_auto", lang_a: bothWays[0], lang_b: bothWays[1] } : {}),
    ...init,
  };
}

/** `index` is its number; the id of the session is added when it is sent. */
export function utteranceOf(init: SessionInit, index: number, audio: Uint8Array, { format = "pcm16", speech = true }: UtteranceOptions): Utterance {
  const { src_lang, tgt_lang, mode, lang_a, lang_b, auto_langs, enable_streaming_asr } = init;
  return {
    ...{ type: "utterance", session_id: "", utterance_index: index, manual_cut: true, audio: toBase64(audio) },
    ...{ audio_format: format, sample_rate: SAMPLE_RATE, src_lang, tgt_lang, mode, lang_a, lang_b, auto_langs },
    ...{ enable_streaming_asr, pipeline: speech ? null : TEXT_ALONE },
  };
}

export type Played = "tts_started" | "tts_play_ended";

export function playbackOf(type: Played, sessionId: string, { trace_id, group_id }: Pick<TranslationResult, "trace_id" | "group_id">): ClientMessage {
  const about = { session_id: sessionId, trace_id, group_id: group_id ?? null };
  return type === "tts_started" ? { type, ...about, ts_start_ms: Date.now() } : { type, ...about, ts_end_ms: Date.now() };
}
