// Draining a node: a question that says what it would cost, and the way down to nothing.
import { part, post } from "./api.js";
import { confirm } from "./dialogs.js";
import { h, setText, show } from "./dom.js";
import { number, pairName } from "./format.js";
import { wideInWords } from "./wide.js";
import { t } from "./words.js";
import { world } from "./world.js";

/** @import {NodeLook} from "../shared/types" */

const SHOWN = 8;
// How many jobs a node held when its draining began, as far as this page has seen it.
/** @type {Map<string, number>} */
const began = new Map();

/** @param {string} nodeId */
export function askToDrain(nodeId) {
  const node = world.nodes.get(nodeId);
  const lost = [...world.pairs.values()].filter((pair) => pair.hangs_on === nodeId && pair.src !== pair.tgt);
  const wide = [...world.wide.values()].filter((one) => one.hangs_on === nodeId);
  const held = node?.held ?? 0;
  /** @type {HTMLElement[]} */
  const body = [h("p", {}, t(held ? "drain.what" : "drain.what_idle", { n: held, count: number(held) }))];
  if (lost.length || wide.length) {
    const named = lost.slice(0, SHOWN).map((pair) => h("li", {}, pairName(`${pair.src}:${pair.tgt}`)));
    if (lost.length > SHOWN) named.push(h("li", {}, t("drain.more_pairs", { n: lost.length - SHOWN })));
    named.unshift(...wide.map((one) => h("li", {}, wideInWords(one))));
    body.push(h("p", { class: "warn" }, t("drain.lost_pairs")), h("ul", {}, named));
  }
  confirm({
    title: t("drain.title", { node: nodeId }),
    body,
    yes: t("drain.drain"),
    act: async () => {
      const { running } = await post(`v1/nodes/${part(nodeId)}/drain`);
      began.set(nodeId, running);
    },
  });
}

/** @param {string} nodeId */
export function askToResume(nodeId) {
  confirm({
    title: t("drain.resume_title", { node: nodeId }),
    body: [h("p", {}, t("drain.resume_what"))],
    yes: t("drain.resume"),
    act: () => post(`v1/nodes/${part(nodeId)}/resume`),
  });
}

export class DrainProgress {
  constructor() {
    this.bar = h("progress", { "aria-label": t("drain.progress") });
    this.words = h("p", { role: "status" });
    this.element = h(
      "section",
      { class: "card drain", hidden: true },
      h("h2", {}, t("drain.progress")),
      this.bar,
      this.words,
    );
  }

  /** @param {NodeLook | undefined} node */
  update(node) {
    show(this.element, node?.state === "draining");
    if (node?.state !== "draining") {
      if (node) began.delete(node.node_id);
      return;
    }
    const most = Math.max(began.get(node.node_id) ?? 0, node.held);
    began.set(node.node_id, most);
    this.bar.max = most || 1;
    this.bar.value = most ? most - node.held : 1;
    const key = node.held ? "drain.left" : "drain.done";
    setText(this.words, t(key, { n: node.held, count: number(node.held), most: number(most) }));
  }
}
