// Pieces that several views show: states, loads, pairs, empty places.
import { h, setAttribute, setText, svg } from "./dom.js";
import { ago, number, pairName } from "./format.js";
import { href } from "./routes.js";
import { stateWord } from "./telling.js";
import { t } from "./words.js";
import { now } from "./world.js";

/** @import {NodeLook} from "../shared/types" */
/** @import {Child} from "./dom.js" */

/**
 * Shapes that differ without colour: a filled circle, a triangle, a square, a ring …
 * @type {Record<string, string>}
 */
const SHAPES = {
  good: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z",
  notice: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 3.4a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 0 1 0-5.2z",
  warning: "M8 1.5 15.3 14H.7z",
  critical: "M5 1h6l4 4v6l-4 4H5l-4-4V5z",
  unknown: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8z",
};

export class Mark {
  /** @param {string} [level] */
  constructor(level = "unknown") {
    this.path = svg("path", { "fill-rule": "evenodd" });
    this.element = svg(
      "svg",
      { class: "mark", viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" },
      this.path,
    );
    this.show(level);
  }

  /** @param {string} level */
  show(level) {
    setAttribute(this.path, "d", SHAPES[level] ?? SHAPES.unknown);
    setAttribute(this.element, "data-level", level);
  }
}

export class StateMark {
  constructor() {
    this.mark = new Mark();
    this.word = h("span");
    this.element = h("span", { class: "state" }, this.mark.element, this.word);
  }

  /** @param {Pick<NodeLook, "state" | "level">} node */
  show({ state, level }) {
    this.mark.show(level ?? "good");
    setText(this.word, stateWord(state));
  }
}

/** Slots taken of all, as a bar and in figures. */
export class LoadBar {
  constructor() {
    this.fill = h("span", { class: "load-fill" });
    this.words = h("span", { class: "load-words" });
    this.element = h(
      "span",
      { class: "load" },
      h("span", { class: "load-bar", "aria-hidden": "true" }, this.fill),
      this.words,
    );
  }

  /**
   * @param {number} held
   * @param {number} slots
   */
  show(held, slots) {
    const share = slots ? Math.min(1, held / slots) : 0;
    const scale = `scaleX(${share.toFixed(3)})`;
    if (this.fill.style.transform !== scale) this.fill.style.transform = scale;
    setAttribute(this.fill, "data-level", share >= 1 ? "full" : share > 0.8 ? "low" : "wide");
    setText(this.words, t("of", { part: number(held), whole: number(slots) }));
  }
}

/** @param {NodeLook} node */
export function seen(node) {
  return ago(now() - node.seen_at_ms);
}

/** @param {string} nodeId */
export function nodeLink(nodeId) {
  return nodeId ? h("a", { class: "id", href: href("nodes", nodeId) }, nodeId) : h("span", { class: "faint" }, "–");
}

/** @param {string} pair */
export function pairLink(pair) {
  return h("a", { href: href("pairs", pair) }, pairName(pair));
}

/**
 * @param {string} title
 * @param {...Child} more
 */
export function empty(title, ...more) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), ...more);
}

/** @param {string} text */
export function command(text) {
  return h("pre", { class: "command", tabindex: "0" }, h("code", {}, text));
}

/** Where a node dials in: this very address, with the scheme of a socket. */
export function nodeCommand() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  return `lingua node --engine sim --url ${scheme}://${location.host}`;
}

/**
 * @param {string} text
 * @param {...Child} more
 */
export function heading(text, ...more) {
  return h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, text), ...more);
}

/**
 * Facts as a list of names and values; `entries` are `[name, element or text]`.
 * @param {[string, Child][]} entries
 */
export function factList(entries) {
  return h(
    "dl",
    { class: "facts" },
    entries.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/**
 * @param {string} name
 * @param {string} label
 */
export function back(name, label) {
  return h("a", { class: "back", href: href(name) }, `← ${label}`);
}

/**
 * @param {string} label
 * @param {string} value
 * @param {(text: string) => void} onInput
 */
export function filterField(label, value, onInput) {
  return h("input", {
    type: "search",
    class: "filter",
    placeholder: label,
    "aria-label": label,
    "data-filter": true,
    autocomplete: "off",
    spellcheck: "false",
    value,
    input: (event) => onInput(event.target.value),
  });
}

/**
 * The next or an earlier one of these gets the focus; the first when none has it.
 * @param {Element[]} elements
 * @param {number} step
 */
export function focusNext(elements, step) {
  const place = elements.findIndex((element) => element === document.activeElement);
  const next = elements[place < 0 ? 0 : place + step];
  if (next instanceof HTMLElement) next.focus();
}

/**
 * Buttons were made anew: the pressed one gets the focus that was there.
 * @param {Element} group
 */
export function focusPressed(group) {
  const pressed = group.querySelector("[aria-pressed=true]");
  if (pressed instanceof HTMLElement) pressed.focus();
}
