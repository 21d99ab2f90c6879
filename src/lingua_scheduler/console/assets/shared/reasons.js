// Why something that was said has no translation, and why there is no microphone, as words of the pages.
import { NoMicrophone } from "./client.js";
import common from "./words-en.js";

/** @typedef {Extract<keyof typeof common, `missing_${string}`>} MissingWord */
/** @typedef {Extract<keyof typeof common, `mic_${string}`>} MicWord */

const LATE = new Set(["gap_timeout", "pending_overflow_evict"]);
const TIMEOUT = "JOB_TIMEOUT";

/**
 * A time-out and a cancelled job are not silence.
 * @param {string} reason
 * @param {string} code of a failed job
 * @returns {MissingWord}
 */
export function missingWord(reason, code) {
  if (reason !== "job_failed") return LATE.has(reason) ? "missing_late" : "missing_no_text";
  if (code === TIMEOUT) return "missing_late";
  const word = `missing_${code}`;
  return Object.hasOwn(common, word) ? /** @type {MissingWord} */ (word) : "missing_job_failed";
}

/**
 * @param {unknown} error
 * @returns {MicWord}
 */
export function micWord(error) {
  const word = `mic_${error instanceof NoMicrophone ? error.code.toLowerCase() : "failed"}`;
  return Object.hasOwn(common, word) ? /** @type {MicWord} */ (word) : "mic_failed";
}
