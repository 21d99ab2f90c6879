// What a client hears, as plain values.
import { fromBase64 } from "./frames.js";
import type { AsrPartial, MissingResult, TranslationResult, UiEvent } from "./messages.js";

export interface Translation {
  kind: "translation";
  index: number;
  /** As it was understood. */
  text: string;
  translated: string;
  /** Empty when none was asked for. */
  speech: Uint8Array;
  /** `pcm16` (16 kHz mono), `wav`, `ogg` or `opus` (framed). */
  speechFormat: string;
  /** One that was said after it has come before it. */
  isLate: boolean;
  /** The message itself, with timings and the rest. */
  message: TranslationResult;
}

/** There is no translation: nothing was understood, or it failed. */
export interface Gap {
  kind: "gap";
  index: number;
  /** `no_text`, `silence_detected`, `job_failed` … (docs/sessions.md) */
  reason: string;
  /** Of a failed one: an error code such as JOB_TIMEOUT, and a sentence; else empty. */
  code: string;
  detail: string;
  isLate: boolean;
  message: MissingResult;
}

/** What was understood so far of an utterance that is not over. */
export interface Partial {
  kind: "partial";
  index: number;
  text: string;
}

/** How an utterance gets on: INPUT_ENDED, DISPATCHED, NODE_ACCEPTED … */
export interface Progress {
  kind: "progress";
  index: number;
  step: string;
  isError: boolean;
  /** Of an error: its code and a sentence; else empty. */
  code: string;
  detail: string;
}

export type Result = Translation | Gap;
export type Outcome = TranslationResult | MissingResult;

export function resultOf(message: Outcome): Result {
  const shared = { index: message.utterance_index, isLate: Boolean(message.late) };
  if (message.type === "missing_result") {
    const { reason, code, detail } = message;
    return { kind: "gap", ...shared, reason, code: code ?? "", detail: detail ?? "", message };
  }
  return {
    kind: "translation",
    ...shared,
    text: message.text_asr,
    translated: message.text_translated,
    speech: fromBase64(message.tts_audio),
    speechFormat: message.tts_format,
    message,
  };
}

export function partialOf(message: AsrPartial): Partial {
  return { kind: "partial", index: message.utterance_index, text: message.text };
}

export function progressOf(message: UiEvent): Progress {
  return {
    kind: "progress",
    index: message.utterance_index,
    step: message.event,
    isError: message.status === "error",
    code: message.error_code ?? "",
    detail: message.hint ?? "",
  };
}
