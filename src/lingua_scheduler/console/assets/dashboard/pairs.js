// Language pairs: who can be translated into what, and how much room there is.
import { recall, remember } from "../shared/storage.js";
import { h, Keyed, setText, show } from "./dom.js";
import { number } from "./format.js";
import { Matrix, SIGNS } from "./matrix.js";
import { byThinness, fitting, isFitting, wanted } from "./pair-choice.js";
import { PairTable } from "./pair-table.js";
import { command, empty, filterField, focusPressed, heading, nodeCommand } from "./parts.js";
import { note } from "./routes.js";
import { WideGroup } from "./wide-group.js";
import { widePairs } from "./wide.js";
import { t } from "./words.js";
import { world } from "./world.js";

/** @import {PairLook} from "../shared/types" */
/** @import {Route} from "./routes.js" */
/** @import {Changed} from "./world.js" */

/** @typedef {{element: Element, show(pairs: PairLook[]): void, move(step: number): void, close?(): void}} Body */

// Maximum drawn at once; the rest is found by searching.
const MOST_ROWS = 300;
const PHONE = matchMedia("(max-width: 640px)");

export class Pairs {
  /** @param {Route} route */
  constructor(route) {
    this.title = t("view.pairs");
    this.q = route.query.get("q") ?? "";
    const shapes = [route.query.get("as"), recall("pairs"), PHONE.matches ? "list" : "matrix"];
    /** @type {string} */
    this.shape = shapes.find((shape) => shape === "list" || shape === "matrix") ?? "list";
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
    /** @type {Body | null} */
    this.body = null;
    this.build();
  }

  /** @param {string} q */
  search(q) {
    this.filter.value = q;
    this.filter.focus();
    this.choose({ q });
  }

  /** @param {{q?: string, shape?: string}} chosen */
  choose({ q = this.q, shape = this.shape }) {
    const isOther = shape !== this.shape;
    this.q = q;
    this.shape = shape;
    if (isOther) {
      remember("pairs", shape);
      this.build();
      focusPressed(this.shapes);
    }
    note("pairs", "", { q: this.q, as: this.shape });
    this.draw();
  }

  close() {
    this.body?.close?.();
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

  /** @param {new () => Body} Kind */
  use(Kind) {
    if (this.body instanceof Kind) return;
    this.body?.close?.();
    this.body = new Kind();
    this.place.replaceChildren(this.body.element);
  }

  /** @param {Changed} changed */
  update(changed) {
    if (changed.has("pairs", "wide", "session_languages", "alarms", "detours")) this.draw();
  }

  draw() {
    const all = wanted(this.q);
    // All pairs of one language are a cross in a matrix, mostly empty: found, they are a list.
    const isMatrix = this.shape === "matrix" && (!this.q || isFitting(all));
    const pairs = isMatrix ? fitting(all) : all.sort(byThinness).slice(0, MOST_ROWS);
    const groups = [...world.wide.values()];
    this.use(isMatrix ? Matrix : PairTable);
    this.body?.show(pairs);
    this.groups.show(groups, (wide) => wide.name);
    show(this.wide, groups.length > 0);
    show(this.legend, isMatrix && pairs.length > 0);
    show(this.place, pairs.length > 0);
    show(this.nothing, pairs.length === 0 && isEmpty() && !this.q);
    show(this.unmatched, pairs.length === 0 && this.q !== "");
    this.tellCount(all.length, pairs.length);
  }

  /**
   * @param {number} all how many there are
   * @param {number} shown how many of them are drawn
   */
  tellCount(all, shown) {
    const left = all - shown;
    show(this.rest, left > 0);
    setText(this.rest, t("pairs.rest", { n: left, count: number(left) }));
    const count = this.q ? all : Math.max(all, widePairs());
    setText(this.count, t("pairs.count", { n: count, count: number(count) }));
  }

  /** @param {number} step */
  move(step) {
    this.body?.move(step);
  }
}

/** No node serves any pair. */
function isEmpty() {
  return world.pairs.size === 0 && world.wide.size === 0;
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
