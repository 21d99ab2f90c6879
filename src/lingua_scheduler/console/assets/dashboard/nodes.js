// All nodes: found by words, filtered by state, sorted by any column; only the rows in sight exist.
import { askToDrain, askToResume } from "./draining.js";
import { h, setAttribute, setText, show } from "./dom.js";
import { factsOf } from "./facts.js";
import { compare, number } from "./format.js";
import { command, empty, filterField, heading, LoadBar, nodeCommand, seen, StateMark } from "./parts.js";
import { may } from "./person.js";
import { href, note } from "./routes.js";
import { stateWord } from "./telling.js";
import { t } from "./words.js";
import { world } from "./world.js";
import { VirtualRows } from "./virtual.js";

/** @import {NodeLook} from "../shared/types" */
/** @import {Route} from "./routes.js" */
/** @import {Changed} from "./world.js" */

const STATES = ["ready", "degraded", "draining", "quarantined", "probation", "registering"];
const URGENCY = ["quarantined", "probation", "degraded", "registering", "draining", "ready"];
/** @type {Record<string, (one: NodeLook, other: NodeLook) => number>} */
const SORTS = {
  node: (one, other) => compare(one.node_id, other.node_id),
  state: (one, other) => URGENCY.indexOf(one.state) - URGENCY.indexOf(other.state),
  load: (one, other) => other.held / (other.max_jobs || 1) - one.held / (one.max_jobs || 1),
  languages: (one, other) => factsOf(other).languages.length - factsOf(one).languages.length,
  seen: (one, other) => one.seen_at_ms - other.seen_at_ms,
  cpu: (one, other) => (other.cpu ?? -1) - (one.cpu ?? -1),
};
const COLUMNS = ["node", "state", "load", "languages", "cpu", "seen"];
const LANGUAGES = 6;

export class Nodes {
  /** @param {Route} route */
  constructor(route) {
    this.title = t("view.nodes");
    this.q = route.query.get("q") ?? "";
    this.state = route.query.get("state") ?? "";
    const [sort = "", down = ""] = (route.query.get("sort") ?? "").split(".");
    this.sort = sort in SORTS ? sort : "node";
    this.isReversed = down === "reversed";
    this.filter = filterField(t("nodes.filter"), this.q, (q) => this.choose({ q }));
    const choices = ["", ...STATES].map((state) =>
      h("option", { value: state, selected: state === this.state }, state ? stateWord(state) : t("nodes.any_state")),
    );
    this.states = h(
      "select",
      { "aria-label": t("nodes.state"), change: (event) => this.choose({ state: event.target.value }) },
      choices,
    );
    this.count = h("span", { class: "faint", role: "status" });
    this.heads = COLUMNS.map((name) => this.head(name));
    this.body = h("div", { class: "vbody", role: "rowgroup" });
    this.table = h(
      "div",
      { class: "card flush vtable", role: "table", "aria-label": t("view.nodes") },
      h(
        "div",
        { role: "rowgroup" },
        h(
          "div",
          { class: "vrow vhead", role: "row", "aria-rowindex": "1" },
          this.heads,
          h("span", { role: "columnheader" }, h("span", { class: "unseen" }, t("nodes.action"))),
        ),
      ),
      this.body,
    );
    this.rows = new VirtualRows(this.body, () => new Row());
    this.nothing = empty(t("nodes.empty"), h("p", {}, t("nodes.empty_step")), command(nodeCommand()));
    this.unmatched = empty(t("filter.nothing"));
    this.element = h(
      "div",
      {},
      heading(t("view.nodes"), this.count),
      h("div", { class: "tools" }, this.filter, this.states),
      this.nothing,
      this.unmatched,
      this.table,
    );
    /** @type {NodeLook[]} */
    this.order = [];
  }

  /** @param {string} name */
  head(name) {
    const button = h("button", { type: "button", click: () => this.choose({ sort: name }) }, t(`nodes.${name}`));
    return h("span", { role: "columnheader", "aria-sort": "none", class: name === "cpu" ? "figure" : null }, button);
  }

  /** @param {{q?: string, state?: string, sort?: string | null}} chosen */
  choose({ q = this.q, state = this.state, sort = null }) {
    this.q = q;
    this.state = state;
    if (sort !== null) this.isReversed = sort === this.sort && !this.isReversed;
    this.sort = sort ?? this.sort;
    note("nodes", "", {
      q,
      state,
      sort: this.isReversed ? `${this.sort}.reversed` : this.sort === "node" ? "" : this.sort,
    });
    this.arrange();
  }

  close() {
    this.rows.close();
  }

  /** @param {Changed} changed */
  update(changed) {
    // Rows do not jump away under a pointer or the keyboard.
    const isHeld = this.body.matches(":hover, :focus-within") && !changed.isAll;
    if (isHeld) this.keep();
    else this.arrange();
  }

  tick() {
    this.rows.draw();
  }

  arrange() {
    const words = this.q.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [...world.nodes.values()].filter((node) => {
      if (this.state && node.state !== this.state) return false;
      return words.every((word) => factsOf(node).found.includes(word) || factsOf(node).text.has(word));
    });
    const direction = this.isReversed ? -1 : 1;
    const sort = SORTS[this.sort];
    found.sort((one, other) => direction * sort(one, other) || SORTS.node(one, other));
    this.place(found);
  }

  /** The same order, with what became of each. */
  keep() {
    const known = new Set(this.order.map((node) => node.node_id));
    const added = [...world.nodes.values()].filter((node) => !known.has(node.node_id) && !this.q && !this.state);
    const kept = this.order.flatMap((node) => world.nodes.get(node.node_id) ?? []);
    this.place([...kept, ...added]);
  }

  /** @param {NodeLook[]} found */
  place(found) {
    this.order = found;
    COLUMNS.forEach((name, place) => {
      const sorted = this.isReversed ? "descending" : "ascending";
      setAttribute(this.heads[place], "aria-sort", name === this.sort ? sorted : "none");
    });
    setAttribute(this.table, "aria-rowcount", found.length + 1);
    show(this.table, found.length > 0);
    show(this.nothing, world.nodes.size === 0);
    show(this.unmatched, found.length === 0 && world.nodes.size > 0);
    const words = { n: world.nodes.size, count: number(found.length), total: number(world.nodes.size) };
    setText(this.count, t(found.length === world.nodes.size ? "nodes.count" : "nodes.count_of", words));
    this.rows.show(found, (node) => node.node_id);
  }

  /** @param {number} step */
  move(step) {
    this.rows.move(step);
  }
}

class Row {
  constructor() {
    /** @type {NodeLook | null} */
    this.node = null;
    this.link = h("a", { class: "id" });
    this.state = new StateMark();
    this.load = new LoadBar();
    this.languages = h("span", { role: "cell", class: "codes" });
    this.machine = h("span", { role: "cell", class: "figure cell-machine" });
    this.seen = h("span", { role: "cell", class: "cell-seen" });
    this.button = h("button", { type: "button", class: "quiet", click: () => this.act() });
    this.element = h(
      "div",
      { class: "vrow", role: "row" },
      h("span", { role: "rowheader", class: "cell-node" }, this.link),
      h("span", { role: "cell", class: "cell-state" }, this.state.element),
      h("span", { role: "cell", class: "cell-load" }, this.load.element),
      this.languages,
      this.machine,
      this.seen,
      h("span", { role: "cell", class: "cell-action" }, may("fleet:operate") && this.button),
    );
  }

  act() {
    if (this.node?.state === "draining") askToResume(this.node.node_id);
    else if (this.node) askToDrain(this.node.node_id);
  }

  /** @param {NodeLook} node */
  update(node) {
    const isOther = this.node !== node;
    this.node = node;
    if (isOther) {
      setText(this.link, node.node_id);
      setAttribute(this.link, "href", href("nodes", node.node_id));
      const { languages } = factsOf(node);
      const rest = languages.length - LANGUAGES;
      setText(this.languages, `${languages.slice(0, LANGUAGES).join(" ")}${rest > 0 ? ` +${rest}` : ""}`);
      setText(this.button, t(node.state === "draining" ? "drain.resume" : "drain.drain"));
      setAttribute(this.button, "aria-label", `${this.button.textContent} ${node.node_id}`);
    }
    this.state.show(node);
    this.load.show(node.held, node.max_jobs);
    setText(this.machine, node.cpu === null ? "–" : `${number(node.cpu)} %`);
    setText(this.seen, seen(node));
  }
}
