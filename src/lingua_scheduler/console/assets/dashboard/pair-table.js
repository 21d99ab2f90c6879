// Language pairs as rows, the thinnest first: for phones, and for ears.
import { h, Keyed, setAttribute, setText } from "./dom.js";
import { number } from "./format.js";
import { headroomInWords, SIGNS } from "./matrix.js";
import { byThinness } from "./pair-choice.js";
import { focusNext, pairLink } from "./parts.js";
import { t } from "./words.js";

/** @import {PairLook} from "../shared/types" */

export class PairTable {
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

  /** @param {PairLook[]} pairs */
  show(pairs) {
    this.rows.show(pairs.sort(byThinness), (pair) => `${pair.src}:${pair.tgt}`);
  }

  /** @param {number} step */
  move(step) {
    const links = [...this.body.querySelectorAll("tr > th a")];
    focusNext(links, step);
  }
}

class PairRow {
  /** @param {PairLook} pair */
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

  /** @param {PairLook} pair */
  update(pair) {
    const level = pair.room;
    setAttribute(this.sign, "data-level", level);
    setText(this.sign, SIGNS[level]);
    setText(this.room, headroomInWords(pair));
    setText(this.only, pair.hangs_on ? ` ◆ ${t("pairs.only", { node: pair.hangs_on })}` : "");
    setText(this.figures[0], `${number(pair.free)} / ${number(pair.slots)}`);
    setText(this.figures[1], number(pair.nodes));
    setText(this.figures[2], number(pair.text_nodes));
  }
}
