// What was said and written in the room, in order. Pure: names and times are handed in, nothing is drawn here.

/** @import {Caption, Clip, EarlierLine, Said, TextMessage, Unheard} from "../shared/client.js" */
/** @import {MissingWord} from "../shared/reasons.js" */
/** @import {Word} from "./words.js" */
import { missingWord } from "../shared/reasons.js";

// Older lines leave the page and the file, older speech leaves the memory.
const MAX_LINES = 1_000;
const MAX_CLIPS = 30;
// Something that is being said and whose outcome never comes: its speaker is gone.
const FORGET_AFTER_MS = 90_000;

/** @typedef {{id: string, name: string, language: string, isMe: boolean}} Who */
/**
 * @typedef {object} Line
 * @property {number} id
 * @property {"speech" | "text" | "note"} kind
 * @property {Who} who
 * @property {number} at
 * @property {"live" | "done" | "missing"} state live: it is being said, or translated
 * @property {boolean} isFinal of a live one: all of it was said
 * @property {string} text in the reader's language, once it is there
 * @property {string} lang
 * @property {string} original as it was said
 * @property {string} originalLang
 * @property {number | null} seq its place in the room
 * @property {MissingWord | ""} reason
 * @property {Word | ""} note
 * @property {Clip | null} clip
 * @property {boolean} isPlaying
 */

export class Transcript {
  /** @type {Line[]} */
  #lines = [];
  /** @type {Map<string, Line>} */
  #live = new Map();
  // The outcomes that are shown, by speaker and number: some come without a place in the room.
  /** @type {Set<string>} */
  #shown = new Set();
  #onChange;
  #count = 0;

  /** @param {(changed: Line) => void} onChange */
  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** What is settled, in the order of the room. */
  get lines() {
    return this.#lines;
  }

  /** What is being said now. */
  get live() {
    return [...this.#live.values()];
  }

  /**
   * @param {Caption} caption
   * @param {Who} who
   * @param {number} at
   */
  caption(caption, who, at) {
    const key = keyOf(caption);
    if (this.#shown.has(key)) return;
    const line = this.#live.get(key) ?? this.#make({ kind: "speech", who, at, state: "live" });
    this.#live.set(key, line);
    const { text: original, language, isFinal } = caption;
    Object.assign(line, { original, originalLang: language || who.language, isFinal, at });
    this.#onChange(line);
  }

  /**
   * @param {Said | Unheard} event
   * @param {Who} who
   * @param {number} at
   * @returns {Line | null} null if it is not shown
   */
  outcome(event, who, at) {
    const key = keyOf(event);
    if (this.#shown.has(key)) return null;
    this.#remember(key);
    const line = this.#live.get(key) ?? this.#make({ kind: "speech", who, at });
    this.#live.delete(key);
    Object.assign(line, { seq: event.seq, at }, settled(event, line, who));
    const isEmpty = line.state === "done" && !line.text;
    // Of others, silence is not worth a line.
    const isShown = !isEmpty && (line.state === "done" || who.isMe || line.original !== "");
    if (isShown) this.#insert(line);
    this.#onChange(line);
    return isShown ? line : null;
  }

  /**
   * @param {TextMessage} message
   * @param {Who} who
   */
  message({ text, atMs }, who) {
    this.#add(this.#make({ kind: "text", who, at: atMs, text }));
  }

  /**
   * What was said before one came.
   * @param {EarlierLine} line
   * @param {Who} who
   */
  earlier({ text, language, original, seq, atMs }, who) {
    // One reads one's own words as they were said.
    const read = who.isMe ? original : text;
    const said = { text: read, lang: language, original: original === read ? "" : original, originalLang: who.language, seq };
    this.#add(this.#make({ kind: seq === null ? "text" : "speech", who, at: atMs, ...said }));
  }

  /**
   * @param {Word} note
   * @param {Who} who about whom
   * @param {number} at
   */
  note(note, who, at) {
    this.#add(this.#make({ kind: "note", who, at, note }));
  }

  /**
   * @param {Line} line
   * @param {Partial<Line>} changes
   */
  change(line, changes) {
    Object.assign(line, changes);
    if (changes.clip) this.#limitClips();
    this.#onChange(line);
  }

  /**
   * Live lines whose outcome is not to be expected any more; `speaker` alone, if it is named.
   * @param {number} now
   * @param {string} [speaker]
   */
  forget(now, speaker) {
    for (const [key, line] of this.#live) {
      const isGone = speaker === undefined ? now - line.at > FORGET_AFTER_MS : line.who.id === speaker;
      if (!isGone) continue;
      this.#live.delete(key);
      this.#onChange(line);
    }
  }

  /**
   * @param {Partial<Line> & Pick<Line, "kind" | "who" | "at">} known
   * @returns {Line}
   */
  #make(known) {
    this.#count += 1;
    return {
      ...{ id: this.#count, state: "done", isFinal: false, text: "", lang: "", original: "", originalLang: "" },
      ...{ seq: null, reason: "", note: "", clip: null, isPlaying: false },
      ...known,
    };
  }

  /** @param {Line} line */
  #add(line) {
    this.#insert(line);
    this.#onChange(line);
  }

  /**
   * The scheduler keeps the order, but for what came late.
   * @param {Line} line
   */
  #insert(line) {
    const { seq } = line;
    let at = this.#lines.length;
    if (seq !== null) while (at > 0 && (this.#lines[at - 1].seq ?? -1) > seq) at -= 1;
    this.#lines.splice(at, 0, line);
    if (this.#lines.length > MAX_LINES) this.#lines.shift();
  }

  /** @param {string} key */
  #remember(key) {
    this.#shown.add(key);
    if (this.#shown.size > MAX_LINES) this.#shown.delete([...this.#shown][0]);
  }

  #limitClips() {
    const withClip = this.#lines.filter(({ clip }) => clip);
    for (const line of withClip.slice(0, -MAX_CLIPS)) line.clip = null;
  }
}

/** @param {{speaker: string, index: number}} event */
function keyOf({ speaker, index }) {
  return `${speaker}:${index}`;
}

/**
 * @param {Said | Unheard} event
 * @param {Line} line
 * @param {Who} who
 * @returns {Partial<Line>}
 */
function settled(event, line, who) {
  if (event.kind === "unheard") return { state: "missing", reason: missingWord(event.reason, event.code) };
  const spoken = line.originalLang || who.language;
  // One reads one's own words as they were said.
  if (who.isMe) return { state: "done", text: event.text, lang: spoken, original: "" };
  const text = event.translated || event.text;
  const original = event.text === text ? "" : event.text;
  return { state: "done", text, lang: event.language, original, originalLang: spoken };
}

/**
 * As a file: one line each, with its time and what was said.
 * @param {readonly Line[]} lines
 * @param {(at: number) => string} time
 * @param {(line: Line) => string} note what a line without text says
 */
export function asText(lines, time, note) {
  const told = lines.map((line) => {
    if (line.kind === "note" || line.state === "missing") return `[${time(line.at)}] ${note(line)}`;
    const language = line.lang && line.kind === "speech" ? ` (${line.lang})` : "";
    const original = line.original ? `\n        ${line.originalLang ? `${line.originalLang}: ` : ""}${line.original}` : "";
    return `[${time(line.at)}] ${line.who.name}${language}: ${line.text}${original}`;
  });
  return `${told.join("\n")}\n`;
}
