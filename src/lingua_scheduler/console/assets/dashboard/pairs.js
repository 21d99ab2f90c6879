// Language pairs: who can be translated into what, and how much room there is.
import { h, Keyed, recall, remember, setAttribute, setText, show } from "./dom.js";
import { compare, number, pairName } from "./format.js";
import { Matrix, SIGNS } from "./matrix.js";
import { command, empty, filterField, heading, nodeCommand, pairLink } from "./parts.js";
import { note } from "./routes.js";
import { t } from "./words.js";
import { headroomLevel, world } from "./world.js";

const PHONE = matchMedia("(max-width: 640px)");

export class Pairs {
  constructor(route) {
    this.title = t("view.pairs");
    this.q = route.query.get("q") ?? "";
    this.shape = route.query.get("as") ?? recall("pairs") ?? (PHONE.matches ? "list" : "matrix");
    this.filter = filterField(t("pairs.filter"), this.q, (q) => this.choose({ q }));
    this.shapes = h("div", { class: "choices", role: "group", "aria-label": t("pairs.shape") });
    this.count = h("span", { class: "faint", role: "status" });
    this.nothing = empty(t("pairs.none"), h("p", {}, t("nodes.empty_step")), command(nodeCommand()));
    this.unmatched = empty(t("filter.nothing"));
    this.place = h("div", { class: "card flush fitting" });
    this.legend = legend();
    this.element = h(
      "div",
      {},
      heading(t("view.pairs"), this.count),
      h("div", { class: "tools" }, this.filter, this.shapes),
      this.legend,
      this.nothing,
      this.unmatched,
      this.place,
    );
    this.build();
  }

  choose({ q = this.q, shape = this.shape }) {
    const isOther = shape !== this.shape;
    this.q = q;
    this.shape = shape;
    if (isOther) {
      remember("pairs", shape);
      this.build();
      this.shapes.querySelector("[aria-pressed=true]").focus();
    }
    note("pairs", "", { q: this.q, as: this.shape });
    this.draw();
  }

  close() {
    this.body.close?.();
  }

  build() {
    this.body?.close?.();
    this.body = this.shape === "matrix" ? new Matrix() : new PairTable();
    this.place.replaceChildren(this.body.element);
    // The list says it in words.
    show(this.legend, this.shape === "matrix");
    const choices = ["matrix", "list"].map((shape) =>
      h(
        "button",
        { type: "button", "aria-pressed": String(shape === this.shape), click: () => this.choose({ shape }) },
        t(`pairs.${shape}`),
      ),
    );
    this.shapes.replaceChildren(...choices);
  }

  update(changed) {
    if (changed.has("pairs", "session_languages", "alarms")) this.draw();
  }

  draw() {
    const pairs = wanted(this.q);
    this.body.show(pairs);
    show(this.place, pairs.length > 0);
    show(this.nothing, world.pairs.size === 0 && pairs.length === 0 && !this.q);
    show(this.unmatched, pairs.length === 0 && this.q !== "");
    setText(this.count, t("pairs.count", { n: pairs.length, count: number(pairs.length) }));
  }

  move(step) {
    this.body.move?.(step);
  }
}

/** Those that are served, and those that nobody serves although people ask for them, or did. */
function wanted(q) {
  const all = new Map([...world.pairs].filter(([, pair]) => pair.src !== pair.tgt));
  for (const asked of missed()) {
    const [src, tgt] = asked.split(":");
    const nobody = { src, tgt, nodes: 0, slots: 0, free: 0, text_nodes: 0, hangs_on: "" };
    if (!all.has(asked)) all.set(asked, world.pairs.get(asked) ?? nobody);
  }
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return [...all.values()].filter((pair) => {
    const key = `${pair.src}:${pair.tgt}`;
    const found = `${key} ${pairName(key)} ${pair.hangs_on}`.toLowerCase();
    return words.every((word) => found.includes(word));
  });
}

function missed() {
  const pairs = [];
  for (const alarm of world.picture.alarms) if (alarm.code === "pair.lost" && alarm.subject) pairs.push(alarm.subject);
  for (const key of Object.keys(world.picture.session_languages)) {
    const [src, tgt = ""] = key.split(":");
    if (src !== "auto") pairs.push(key);
    const [one, other] = tgt.split("+");
    if (src === "auto" && other) pairs.push(`${one}:${other}`, `${other}:${one}`);
  }
  return pairs;
}

function legend() {
  const entries = Object.entries(SIGNS).map(([level, sign]) =>
    h(
      "span",
      { class: "legend-entry" },
      h("span", { class: "swatch", "data-level": level, "aria-hidden": "true" }, sign),
      t(`headroom.${level}`),
    ),
  );
  const only = h(
    "span",
    { class: "legend-entry" },
    h("span", { class: "hangs", "aria-hidden": "true" }, "◆"),
    t("headroom.only"),
  );
  return h("p", { class: "legend" }, entries, only);
}

/** The same as rows, the thinnest first: for phones, and for ears. */
class PairTable {
  constructor() {
    this.body = h("tbody");
    this.rows = new Keyed(this.body, (pair) => new PairRow(pair));
    const names = ["pairs.pair", "pairs.room", "pairs.free", "pairs.nodes", "pairs.text_nodes"];
    const heads = names.map((name, place) => h("th", { scope: "col", class: place > 1 ? "figure" : null }, t(name)));
    this.element = h(
      "div",
      { class: "scroll" },
      h("table", { class: "table stack-pairs" }, h("thead", {}, h("tr", {}, heads)), this.body),
    );
  }

  show(pairs) {
    this.rows.show(pairs.sort(byThinness), (pair) => `${pair.src}:${pair.tgt}`);
  }

  move(step) {
    const links = [...this.body.querySelectorAll("tr > th a")];
    const place = links.indexOf(document.activeElement);
    links[place < 0 ? 0 : place + step]?.focus();
  }
}

/** By level and name, not by every slot: rows that jump each second cannot be read. */
function byThinness(one, other) {
  const levels = Object.keys(SIGNS);
  const rank = (pair) => 2 * levels.indexOf(headroomLevel(pair)) + Number(pair.hangs_on === "");
  return rank(one) - rank(other) || compare(`${one.src}:${one.tgt}`, `${other.src}:${other.tgt}`);
}

class PairRow {
  constructor(pair) {
    this.sign = h("span", { class: "swatch", "aria-hidden": "true" });
    this.room = h("span");
    this.only = h("span", { class: "hangs-words" });
    this.figures = ["free", "nodes", "text_nodes"].map(() => h("td", { class: "figure" }));
    this.element = h(
      "tr",
      {},
      h("th", { scope: "row" }, pairLink(`${pair.src}:${pair.tgt}`)),
      h("td", {}, this.sign, " ", this.room, this.only),
      this.figures,
    );
  }

  update(pair) {
    const level = headroomLevel(pair);
    setAttribute(this.sign, "data-level", level);
    setText(this.sign, SIGNS[level]);
    setText(this.room, t(`headroom.${level}`));
    setText(this.only, pair.hangs_on ? ` ◆ ${t("pairs.only", { node: pair.hangs_on })}` : "");
    setText(this.figures[0], `${number(pair.free)} / ${number(pair.slots)}`);
    setText(this.figures[1], number(pair.nodes));
    setText(this.figures[2], number(pair.text_nodes));
  }
}
