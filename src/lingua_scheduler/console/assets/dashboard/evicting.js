// Evicting a node and releasing it from quarantine: questions that say what follows.
import { part, post } from "./api.js";
import { confirm } from "./dialogs.js";
import { h } from "./dom.js";
import { number } from "./format.js";
import { t } from "./words.js";
import { world } from "./world.js";

/** @param {string} nodeId */
export function askToEvict(nodeId) {
  const held = world.nodes.get(nodeId)?.held ?? 0;
  confirm({
    title: t("evict.title", { node: nodeId }),
    body: [
      h("p", {}, t(held ? "evict.what" : "evict.what_idle", { n: held, count: number(held) })),
      h("p", {}, t("evict.may_return")),
    ],
    yes: t("evict.evict"),
    act: () => post(`v1/nodes/${part(nodeId)}/evict`),
  });
}

/** @param {string} nodeId */
export function askToRelease(nodeId) {
  confirm({
    title: t("release.title", { node: nodeId }),
    body: [h("p", {}, t("release.what"))],
    yes: t("release.release"),
    act: () => post(`v1/nodes/${part(nodeId)}/release`),
  });
}
