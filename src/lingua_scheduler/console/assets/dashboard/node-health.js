// How a node has done in the last hour: failures, times, real-time factor, and its last errors.
import { h, setText, show } from "./dom.js";
import { ago, milliseconds, number } from "./format.js";
import { factList } from "./parts.js";
import { href } from "./routes.js";
import { t } from "./words.js";
import { now } from "./world.js";

/** @import {NodeLately} from "../shared/types" */

export class NodeHealth {
  /** @param {string} nodeId */
  constructor(nodeId) {
    this.fields = Object.fromEntries(["ended", "failed", "mean", "slowest", "factor"].map((name) => [name, h("span")]));
    this.errors = h("ul", { class: "lines" });
    this.calm = h("p", { class: "calm" }, t("health.no_errors"));
    const { fields } = this;
    this.element = h(
      "section",
      { class: "card" },
      h("h2", {}, t("health.title")),
      factList([
        [t("health.done"), fields.ended],
        [t("health.failed"), fields.failed],
        [t("health.mean"), fields.mean],
        [t("health.slowest"), fields.slowest],
        [t("health.factor"), fields.factor],
      ]),
      h("h3", {}, t("health.errors")),
      this.errors,
      this.calm,
      h("p", {}, h("a", { href: href("failures", "", { node: nodeId, since: "86400" }) }, t("health.failures"))),
    );
  }

  /** @param {NodeLately | undefined} lately */
  show(lately) {
    show(this.element, lately !== undefined);
    if (lately === undefined) return;
    const { fields } = this;
    setText(fields.ended, number(lately.done));
    const share = lately.failed_percent === null ? "" : ` (${number(lately.failed_percent, 1)} %)`;
    setText(fields.failed, `${number(lately.failed)}${share}`);
    setText(fields.mean, lately.mean_ms === null ? "–" : milliseconds(lately.mean_ms));
    setText(fields.slowest, lately.slowest_ms === null ? "–" : milliseconds(lately.slowest_ms));
    setText(fields.factor, lately.real_time_factor === null ? "–" : number(lately.real_time_factor, 2));
    show(this.calm, lately.errors.length === 0);
    this.errors.replaceChildren(
      ...lately.errors.map((error) =>
        h(
          "li",
          {},
          h(
            "span",
            { class: "line-main" },
            h("strong", {}, error.reason),
            " ",
            h("a", { class: "id", href: href("jobs", error.job_id) }, error.job_id),
          ),
          h("span", { class: "faint" }, ago(now() - error.at_ms)),
        ),
      ),
    );
  }
}
