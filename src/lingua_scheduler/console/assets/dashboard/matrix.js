// Language pairs as a matrix: what is said down, what is heard across, in every cell how much room there is.
import { detourInWords } from "./detours.js";
import { h, setAttribute, setText, show } from "./dom.js";
import { compare, languageName, number, pairName } from "./format.js";
import { href } from "./routes.js";
import { t } from "./words.js";

/** @import {PairLook} from "../shared/types" */

// The least headroom first. Each level has its own sign: colour alone is not accessible.
/** @type {Record<string, string>} */
export const SIGNS = { none: "✕", detour: "↷", full: "○", low: "◔", half: "◑", wide: "●" };
const CELLS_A_FRAME = 300;
const STOP = "a[tabindex='0']:not([hidden])";

/** @param {PairLook} pair */
export function inWords(pair) {
  const words = [pairName(`${pair.src}:${pair.tgt}`), headroomInWords(pair)];
  if (pair.nodes) words.push(t("pairs.free_of", { free: number(pair.free), slots: number(pair.slots) }));
  if (pair.hangs_on) words.push(t("pairs.only", { node: pair.hangs_on }));
  return words.join(", ");
}

/** @param {PairLook} pair */
export function headroomInWords({ room, detour }) {
  return detour ? detourInWords(detour) : t(`headroom.${room}`);
}

/** Built when the languages change; else only cells that changed are written. */
export class Matrix {
  constructor() {
    this.table = h("table", { class: "matrix" });
    this.element = h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": t("pairs.matrix") },
      this.table,
    );
    this.languages = "";
    this.frame = 0;
    /** @type {string[]} */
    this.targets = [];
    /** @type {Map<string, Map<string, Cell>>} */
    this.rows = new Map();
    /** @type {Map<string, PairLook>} */
    this.shown = new Map();
    /** @type {string[]} */
    this.queue = [];
    this.table.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param {PairLook[]} pairs */
  show(pairs) {
    const { sources, targets } = axes(pairs);
    const languages = `${sources} ${targets}`;
    if (languages !== this.languages) this.build(targets);
    this.languages = languages;
    this.shown = new Map(pairs.map((pair) => [`${pair.src}:${pair.tgt}`, pair]));
    this.queue = sources;
    cancelAnimationFrame(this.frame);
    this.draw();
  }

  close() {
    cancelAnimationFrame(this.frame);
  }

  /** @param {string[]} targets */
  build(targets) {
    const corner = h("th", { scope: "col", class: "corner" }, t("pairs.corner"));
    const heads = targets.map((code) => h("th", { scope: "col" }, head(code)));
    const caption = h("caption", { class: "unseen" }, t("pairs.caption"));
    this.targets = targets;
    this.rows = new Map();
    this.table.replaceChildren(caption, h("thead", {}, h("tr", {}, corner, heads)), h("tbody"));
  }

  /** Draws as many rows per frame as fit; thousands of cells at once would block scrolling and typing. */
  draw() {
    const count = Math.max(1, Math.floor(CELLS_A_FRAME / this.targets.length));
    for (const src of this.queue.slice(0, count)) {
      for (const [pair, cell] of this.rows.get(src) ?? this.add(src)) cell.update(this.shown.get(pair));
    }
    this.queue = this.queue.slice(count);
    if (this.queue.length) this.frame = requestAnimationFrame(() => this.draw());
    // One stop for Tab; the arrows go on from there.
    if (!this.table.querySelector(STOP)) this.table.querySelector("a:not([hidden])")?.setAttribute("tabindex", "0");
  }

  /** @param {string} src */
  add(src) {
    const cells = new Map(this.targets.map((tgt) => [`${src}:${tgt}`, new Cell(src, tgt)]));
    const elements = [...cells.values()].map((cell) => cell.element);
    this.rows.set(src, cells);
    this.table.tBodies[0].append(h("tr", {}, h("th", { scope: "row" }, head(src)), elements));
    return cells;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    /** @type {Record<string, [number, number]>} */
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const cell = cellOf(event.target);
    if (!(event.key in steps) || cell === null) return;
    event.preventDefault();
    event.stopPropagation();
    this.walk(cell, steps[event.key]);
  }

  /**
   * @param {HTMLTableCellElement} cell
   * @param {[number, number]} step
   */
  walk(cell, [down, right]) {
    const rows = this.table.tBodies[0].rows;
    let row = rowOf(cell) + down;
    let column = cell.cellIndex + right;
    while (rows[row] && column > 0 && rows[row].cells[column]) {
      const link = rows[row].cells[column].querySelector("a:not([hidden])");
      if (link instanceof HTMLElement) {
        this.focus(link);
        return;
      }
      row += down;
      column += right;
    }
  }

  /** @param {HTMLElement} link */
  focus(link) {
    this.table.querySelector(STOP)?.setAttribute("tabindex", "-1");
    link.setAttribute("tabindex", "0");
    link.focus();
  }

  /** @param {number} step */
  move(step) {
    const cell = cellOf(document.activeElement);
    const stop = this.table.querySelector(STOP);
    if (cell && this.table.contains(cell)) this.walk(cell, [step, 0]);
    else if (stop instanceof HTMLElement) stop.focus();
  }
}

/**
 * The languages down and across, each once, by name.
 * @param {PairLook[]} pairs
 */
export function axes(pairs) {
  const sources = [...new Set(pairs.map((pair) => pair.src))].sort(byName);
  const targets = [...new Set(pairs.map((pair) => pair.tgt))].sort(byName);
  return { sources, targets };
}

/** @param {EventTarget | null} target */
function cellOf(target) {
  return target instanceof Element ? target.closest("td") : null;
}

/** @param {HTMLTableCellElement} cell */
function rowOf({ parentElement }) {
  return parentElement instanceof HTMLTableRowElement ? parentElement.sectionRowIndex : -1;
}

/** @param {string} code */
function head(code) {
  return h(
    "abbr",
    { title: languageName(code) },
    h("span", { class: "code" }, code),
    h("span", { class: "name" }, languageName(code)),
  );
}

/**
 * @param {string} one
 * @param {string} other
 */
function byName(one, other) {
  return compare(languageName(one), languageName(other));
}

/** @param {PairLook} pair */
function figures({ nodes, free, slots, detour }) {
  if (detour) return detour.pivot;
  return nodes ? `${number(free)}/${number(slots)}` : "0";
}

class Cell {
  /**
   * @param {string} src
   * @param {string} tgt
   */
  constructor(src, tgt) {
    this.sign = h("span", { class: "sign", "aria-hidden": "true" });
    this.figures = h("span", { class: "figure", "aria-hidden": "true" });
    this.only = h("span", { class: "hangs", "aria-hidden": "true" }, "◆");
    this.words = h("span", { class: "unseen" });
    this.link = h(
      "a",
      { href: href("pairs", `${src}:${tgt}`), tabindex: "-1" },
      this.sign,
      this.figures,
      this.only,
      this.words,
    );
    this.element = h("td", {}, this.link);
  }

  /** @param {PairLook | undefined} pair */
  update(pair) {
    show(this.link, pair !== undefined);
    setAttribute(this.element, "data-level", pair === undefined ? null : pair.room);
    if (pair === undefined) return;
    setText(this.sign, SIGNS[pair.room]);
    setText(this.figures, figures(pair));
    show(this.only, pair.hangs_on !== "");
    const words = inWords(pair);
    setText(this.words, words);
    setAttribute(this.link, "title", words);
  }
}
