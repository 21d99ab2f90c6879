// Draws what was said. What others say is text, never markup.
import { find, icon, label } from "../shared/elements.js";
import { say } from "./words.js";

/** @import {Line} from "./transcript.js" */

// So near to the end counts as at the end: new lines are then scrolled to.
const NEAR_PX = 80;

export class StreamView {
  #scroller = find(HTMLElement, "#stream");
  #said = find(HTMLElement, "#said");
  #live = find(HTMLElement, "#live");
  #empty = find(HTMLElement, "#empty");
  #colour;
  #onReplay;
  /** @type {Map<number, HTMLElement>} */
  #items = new Map();

  /**
   * @param {(id: string) => number} colour of a person
   * @param {(line: Line) => void} onReplay
   */
  constructor(colour, onReplay) {
    this.#colour = colour;
    this.#onReplay = onReplay;
  }

  /**
   * @param {readonly Line[]} lines
   * @param {readonly Line[]} live
   * @param {Line | null} changed null: anything may have
   */
  show(lines, live, changed) {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    const wasAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    if (!changed) this.#clear();
    for (const line of changed ? [changed] : [...lines, ...live]) this.#place(line, lines, live);
    if (this.#items.size > lines.length + live.length) this.#forget(lines, live);
    this.#empty.hidden = lines.length + live.length > 0;
    if (wasAtEnd || !changed) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  /** @param {string} text why nothing is shown */
  explain(text) {
    this.#empty.textContent = text;
  }

  #clear() {
    for (const item of this.#items.values()) item.remove();
    this.#items.clear();
  }

  /**
   * @param {readonly Line[]} lines
   * @param {readonly Line[]} live
   */
  #forget(lines, live) {
    const kept = new Set([...lines, ...live].map(({ id }) => id));
    for (const [id, item] of this.#items) {
      if (kept.has(id)) continue;
      item.remove();
      this.#items.delete(id);
    }
  }

  /**
   * @param {Line} line
   * @param {readonly Line[]} lines
   * @param {readonly Line[]} live
   */
  #place(line, lines, live) {
    const isLive = line.state === "live";
    const list = isLive ? this.#live : this.#said;
    const known = this.#items.get(line.id);
    if (known?.parentElement === list) {
      this.#fill(known, line);
      return;
    }
    known?.remove();
    const at = (isLive ? live : lines).indexOf(line);
    if (at < 0) {
      this.#items.delete(line.id);
      return;
    }
    const item = document.createElement("li");
    this.#items.set(line.id, item);
    this.#fill(item, line);
    const next = (isLive ? live : lines)[at + 1];
    list.insertBefore(item, (next && this.#items.get(next.id)) ?? null);
  }

  /**
   * @param {HTMLElement} item
   * @param {Line} line
   */
  #fill(item, line) {
    item.className = [line.kind, line.state, line.who.isMe ? "mine" : "theirs"].join(" ");
    item.classList.toggle("playing", line.isPlaying);
    item.dataset.colour = String(this.#colour(line.who.id));
    item.replaceChildren(...(line.kind === "note" ? [told("p", "text", noted(line))] : this.#parts(line)));
  }

  /** @param {Line} line */
  #parts(line) {
    const head = document.createElement("p");
    head.className = "head";
    head.append(told("span", "name", line.who.isMe ? say("you") : line.who.name), " ", clock(line.at));
    const parts = [head, ...texts(line)];
    if (line.clip) parts.push(this.#replay(line));
    return parts;
  }

  /** @param {Line} line */
  #replay(line) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "replay";
    label(button, say("replay"));
    button.append(icon("play"));
    button.addEventListener("click", () => this.#onReplay(line));
    return button;
  }
}

/**
 * What a line says that no one has said.
 * @param {Line} line
 */
export function noted({ note, reason, who }) {
  if (note) return say(note, { name: who.name });
  return reason ? say("missing_of", { name: who.name, reason: say(reason) }) : "";
}

/** @param {Line} line */
function texts(line) {
  if (line.state === "missing") return [told("p", "text", line.reason && say(line.reason)), ...originalOf(line)];
  if (line.state === "done") return [told("p", "text", line.text, line.lang), ...originalOf(line)];
  const words = line.original || say("listening");
  const parts = [told("p", "text", words, line.originalLang)];
  if (line.isFinal && !line.who.isMe) parts.push(told("p", "original", say("translating")));
  return parts;
}

/** @param {Line} line */
function originalOf({ original, originalLang }) {
  return original ? [told("p", "original", original, originalLang)] : [];
}

/**
 * @param {string} kind
 * @param {string} name
 * @param {string} text
 * @param {string} [language]
 */
function told(kind, name, text, language = "") {
  const element = document.createElement(kind);
  element.className = name;
  element.textContent = text;
  element.dir = "auto";
  if (language) element.lang = language;
  return element;
}

/** @param {number} at */
function clock(at) {
  const time = document.createElement("time");
  const date = new Date(at);
  time.dateTime = date.toISOString();
  time.textContent = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return time;
}
