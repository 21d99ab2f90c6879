// The transcript as a file, made in the browser.
import { spaced } from "./address.js";
import { noted } from "./stream-view.js";
import { asText } from "./transcript.js";
import { say } from "./words.js";

/** @import {Line} from "./transcript.js" */

/**
 * @param {string} code
 * @param {readonly Line[]} lines
 */
export function save(code, lines) {
  const time = (/** @type {number} */ at) => new Date(at).toLocaleTimeString();
  const title = `${say("file_title", { code: spaced(code) })} · ${new Date().toLocaleDateString()}`;
  const file = new Blob([`${title}\n\n${asText(lines, time, noted)}`], { type: "text/plain;charset=utf-8" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = `room-${code}.txt`;
  link.click();
  URL.revokeObjectURL(link.href);
}
