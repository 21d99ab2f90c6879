// Language pairs as a matrix: what is said down, what is heard across, in every cell how much room there is.
import { h, setAttribute, setText, show } from "./dom.js";
import { compare, languageName, number, pairName } from "./format.js";
import { href } from "./routes.js";
import { t } from "./words.js";
import { headroomLevel } from "./world.js";

// The thinnest first. Each level has a sign of its own: colour alone is not for everybody.
export const SIGNS = { none: "✕", full: "○", low: "◔", half: "◑", wide: "●" };
const CELLS_A_FRAME = 300;
const STOP = "a[tabindex='0']:not([hidden])";

export function inWords(pair) {
  const words = [pairName(`${pair.src}:${pair.tgt}`), t(`headroom.${headroomLevel(pair)}`)];
  if (pair.nodes) words.push(t("pairs.free_of", { free: number(pair.free), slots: number(pair.slots) }));
  if (pair.hangs_on) words.push(t("pairs.only", { node: pair.hangs_on }));
  return words.join(", ");
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
    this.table.addEventListener("keydown", (event) => this.key(event));
  }

  show(pairs) {
    const sources = [...new Set(pairs.map((pair) => pair.src))].sort(byName);
    const targets = [...new Set(pairs.map((pair) => pair.tgt))].sort(byName);
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

  build(targets) {
    const corner = h("th", { scope: "col", class: "corner" }, t("pairs.corner"));
    const heads = targets.map((code) => h("th", { scope: "col" }, head(code)));
    const caption = h("caption", { class: "unseen" }, t("pairs.caption"));
    this.targets = targets;
    this.rows = new Map();
    this.table.replaceChildren(caption, h("thead", {}, h("tr", {}, corner, heads)), h("tbody"));
  }

  /** As many rows as fit in a frame; thousands of cells would hold up whoever scrolls or types. */
  draw() {
    const count = Math.max(1, Math.floor(CELLS_A_FRAME / this.targets.length));
    for (const src of this.queue.slice(0, count)) {
      if (!this.rows.has(src)) this.add(src);
      for (const [pair, cell] of this.rows.get(src)) cell.update(this.shown.get(pair));
    }
    this.queue = this.queue.slice(count);
    if (this.queue.length) this.frame = requestAnimationFrame(() => this.draw());
    // One stop for Tab; the arrows go on from there.
    if (!this.table.querySelector(STOP)) this.table.querySelector("a:not([hidden])")?.setAttribute("tabindex", "0");
  }

  add(src) {
    const cells = new Map(this.targets.map((tgt) => [`${src}:${tgt}`, new Cell(src, tgt)]));
    const elements = [...cells.values()].map((cell) => cell.element);
    this.rows.set(src, cells);
    this.table.tBodies[0].append(h("tr", {}, h("th", { scope: "row" }, head(src)), elements));
  }

  key(event) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const cell = event.target.closest("td");
    if (!(event.key in steps) || cell === null) return;
    event.preventDefault();
    event.stopPropagation();
    this.walk(cell, steps[event.key]);
  }

  walk(cell, [down, right]) {
    const rows = this.table.tBodies[0].rows;
    let row = cell.parentElement.sectionRowIndex + down;
    let column = cell.cellIndex + right;
    while (rows[row] && column > 0 && rows[row].cells[column]) {
      const link = rows[row].cells[column].querySelector("a:not([hidden])");
      if (link) {
        this.focus(link);
        return;
      }
      row += down;
      column += right;
    }
  }

  focus(link) {
    this.table.querySelector(STOP)?.setAttribute("tabindex", "-1");
    link.setAttribute("tabindex", "0");
    link.focus();
  }

  move(step) {
    const cell = document.activeElement?.closest?.("td");
    if (cell && this.table.contains(cell)) this.walk(cell, [step, 0]);
    else this.table.querySelector(STOP)?.focus();
  }
}

function head(code) {
  return h(
    "abbr",
    { title: languageName(code) },
    h("span", { class: "code" }, code),
    h("span", { class: "name" }, languageName(code)),
  );
}

function byName(one, other) {
  return compare(languageName(one), languageName(other));
}

class Cell {
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

  update(pair) {
    show(this.link, pair !== undefined);
    setAttribute(this.element, "data-level", pair === undefined ? null : headroomLevel(pair));
    if (pair === undefined) return;
    setText(this.sign, SIGNS[headroomLevel(pair)]);
    setText(this.figures, pair.nodes ? `${number(pair.free)}/${number(pair.slots)}` : "0");
    show(this.only, pair.hangs_on !== "");
    const words = inWords(pair);
    setText(this.words, words);
    setAttribute(this.link, "title", words);
  }
}
