// Language pairs: who can be translated into what, and how much room there is.
import { h, Keyed, recall, remember, setAttribute, setText, show } from "./dom.js";
import { compare, languageName, number } from "./format.js";
import { Matrix, SIGNS } from "./matrix.js";
import { command, empty, filterField, heading, nodeCommand, pairLink } from "./parts.js";
import { note } from "./routes.js";
import { isFound, lookUp, roomInWords, search, searched, wideInWords, widePairs } from "./wide.js";
import { t } from "./words.js";
import { headroomLevel, world } from "./world.js";

// So much is drawn at once; whoever looks for more searches for it.
const MOST_CELLS = 400;
const MOST_ROWS = 300;
const MOST_SOUGHT = 1_000;
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
    this.rest = h("p", { class: "faint", role: "status" });
    this.wide = h("div", { class: "wide-groups" });
    this.groups = new Keyed(this.wide, () => new WideGroup((q) => this.search(q)));
    this.place = h("div", { class: "card flush fitting" });
    this.legend = legend();
    this.element = h(
      "div",
      {},
      heading(t("view.pairs"), this.count),
      h("div", { class: "tools" }, this.filter, this.shapes),
      this.wide,
      this.legend,
      this.nothing,
      this.unmatched,
      this.place,
      this.rest,
    );
    this.build();
  }

  search(q) {
    this.filter.value = q;
    this.filter.focus();
    this.choose({ q });
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
    this.use(this.shape === "matrix" ? Matrix : PairTable);
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

  use(Body) {
    if (this.body instanceof Body) return;
    this.body?.close?.();
    this.body = new Body();
    this.place.replaceChildren(this.body.element);
  }

  update(changed) {
    if (changed.has("pairs", "wide", "session_languages", "alarms")) this.draw();
  }

  draw() {
    const all = wanted(this.q);
    // All pairs of one language are a cross in a matrix, mostly empty: found, they are a list.
    const isMatrix = this.shape === "matrix" && (!this.q || isFitting(all));
    const pairs = isMatrix ? fitting(all) : all.sort(byThinness).slice(0, MOST_ROWS);
    const groups = [...world.wide.values()];
    this.use(isMatrix ? Matrix : PairTable);
    this.body.show(pairs);
    this.groups.show(groups, (wide) => wide.name);
    show(this.wide, groups.length > 0);
    show(this.legend, isMatrix && pairs.length > 0);
    show(this.place, pairs.length > 0);
    show(this.nothing, world.pairs.size === 0 && groups.length === 0 && pairs.length === 0 && !this.q);
    show(this.unmatched, pairs.length === 0 && this.q !== "");
    const left = all.length - pairs.length;
    show(this.rest, left > 0);
    setText(this.rest, t("pairs.rest", { n: left, count: number(left) }));
    const count = this.q ? all.length : Math.max(all.length, widePairs());
    setText(this.count, t("pairs.count", { n: count, count: number(count) }));
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
    if (!all.has(asked)) all.set(asked, lookUp(asked) ?? nobody);
  }
  const asked = searched(q);
  const listed = [...all.values()].filter((pair) => isFound(pair, asked));
  const others = [...search(asked, MOST_SOUGHT).values()].filter((pair) => !all.has(`${pair.src}:${pair.tgt}`));
  return [...listed, ...others];
}

function isFitting(pairs) {
  return new Set(pairs.map(({ src }) => src)).size * new Set(pairs.map(({ tgt }) => tgt)).size <= MOST_CELLS;
}

/** The thinnest first, as many as make no more than so many cells. */
function fitting(pairs) {
  const sources = new Set();
  const targets = new Set();
  const count = (pair) => (sources.size + !sources.has(pair.src)) * (targets.size + !targets.has(pair.tgt));
  if (isFitting(pairs)) return pairs;
  return pairs.sort(byThinness).filter((pair) => {
    if (count(pair) > MOST_CELLS) return false;
    sources.add(pair.src);
    targets.add(pair.tgt);
    return true;
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

/** Nodes that serve any pair of many languages; opened, it names them. */
class WideGroup {
  constructor(onSearch) {
    this.sign = h("span", { class: "swatch", "aria-hidden": "true" });
    this.words = h("strong");
    this.room = h("span");
    this.only = h("span", { class: "hangs-words" });
    this.codes = h("div", { class: "chips" });
    this.element = h(
      "details",
      { class: "card wide-group", toggle: () => this.open() },
      h("summary", {}, this.sign, " ", this.words, " · ", this.room, this.only),
      h("p", { class: "faint" }, t("wide.hint")),
      this.codes,
    );
    this.onSearch = onSearch;
  }

  open() {
    if (this.codes.childElementCount || !this.element.open) return;
    const codes = [...new Set([...this.look.sources, ...this.look.text])];
    codes.sort((one, other) => compare(languageName(one), languageName(other)));
    const chips = codes.map((code) =>
      h(
        "button",
        { type: "button", class: "chip", title: code, click: () => this.onSearch(code) },
        languageName(code),
      ),
    );
    this.codes.replaceChildren(...chips);
  }

  update(wide) {
    this.look = wide;
    const level = headroomLevel(wide);
    setAttribute(this.sign, "data-level", level);
    setText(this.sign, SIGNS[level]);
    setText(this.words, wideInWords(wide));
    setText(this.room, roomInWords(wide));
    setText(this.only, wide.hangs_on ? ` ◆ ${t("pairs.only", { node: wide.hangs_on })}` : "");
  }
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
