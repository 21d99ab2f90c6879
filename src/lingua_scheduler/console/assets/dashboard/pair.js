// One language pair: who serves it, or what is missing.
import { get, part, refusal } from "./api.js";
import { withDetour } from "./detours.js";
import { h, Keyed, setText, show } from "./dom.js";
import { factsOf } from "./facts.js";
import { number, pairName } from "./format.js";
import { inWords } from "./matrix.js";
import { back, empty, heading, LoadBar, nodeLink, seen, StateMark } from "./parts.js";
import { lookUp, unserved } from "./wide.js";
import { t } from "./words.js";
import { world } from "./world.js";

/** @import {NodeLook} from "../shared/types" */
/** @import {Route} from "./routes.js" */

const SHOWN = 100;

/** @typedef {{node: NodeLook, speaks: boolean}} Served */

export class Pair {
  /** @param {Route} route */
  constructor(route) {
    this.pair = route.id;
    this.title = pairName(route.id);
    this.words = h("p", { class: "lead" });
    this.missing = empty(t("pair.nobody"));
    this.body = h("tbody");
    this.rows = new Keyed(this.body, (node) => new Row(node));
    this.more = h("p", { class: "faint" });
    const heads = ["nodes.node", "nodes.state", "nodes.load", "pair.as", "nodes.seen"].map((key) =>
      h("th", { scope: "col" }, t(key)),
    );
    this.table = h(
      "div",
      { class: "card flush scroll" },
      h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), this.body),
    );
    this.element = h(
      "div",
      {},
      back("pairs", t("view.pairs")),
      heading(this.title),
      this.words,
      this.missing,
      this.table,
      this.more,
    );
    this.isAsked = false;
  }

  update() {
    const look = lookUp(this.pair);
    const known = withDetour(look ?? unserved(this.pair));
    setText(this.words, inWords(known));
    const nodes = [...world.nodes.values()].filter(
      (node) => factsOf(node).text.has(this.pair) || factsOf(node).speech.has(this.pair),
    );
    nodes.sort((one, other) => (other.free ?? -1) - (one.free ?? -1));
    this.rows.show(
      nodes.slice(0, SHOWN).map((node) => ({ node, speaks: factsOf(node).speech.has(this.pair) })),
      ({ node }) => node.node_id,
    );
    show(this.table, nodes.length > 0);
    show(this.missing, known.nodes === 0);
    show(this.more, nodes.length > SHOWN);
    setText(this.more, t("pair.more", { n: nodes.length - SHOWN, count: number(nodes.length - SHOWN) }));
    if (known.nodes === 0 && !this.isAsked) this.ask(known.src, known.tgt);
    this.isAsked = known.nodes === 0;
  }

  tick() {
    this.update();
  }

  /**
   * What is missing only the scheduler can tell.
   * @param {string} src
   * @param {string} tgt
   */
  async ask(src, tgt) {
    try {
      /** @type {{missing: Record<string, string>}} */
      const { missing } = await get(`v1/pools/${part(src)}/${part(tgt)}`);
      const lines = [...new Set(Object.values(missing))].map((line) => h("p", { lang: "en" }, line));
      this.missing.replaceChildren(h("p", { class: "empty-title" }, t("pair.nobody")), ...lines);
    } catch (error) {
      this.missing.replaceChildren(
        h("p", { class: "empty-title" }, t("pair.nobody")),
        h("p", { lang: "en" }, refusal(error).message),
      );
    }
  }
}

class Row {
  /** @param {Served} served */
  constructor({ node }) {
    this.state = new StateMark();
    this.load = new LoadBar();
    this.speaks = h("td");
    this.seen = h("td");
    this.element = h(
      "tr",
      {},
      h("th", { scope: "row" }, nodeLink(node.node_id)),
      h("td", {}, this.state.element),
      h("td", {}, this.load.element),
      this.speaks,
      this.seen,
    );
  }

  /** @param {Served} served */
  update({ node, speaks }) {
    this.state.show(node);
    this.load.show(node.held, node.max_jobs);
    setText(this.speaks, t(speaks ? "pair.speech" : "pair.text"));
    setText(this.seen, seen(node));
  }
}
