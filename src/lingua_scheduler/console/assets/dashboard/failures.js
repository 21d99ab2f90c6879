// The failure history: every failed job of the fleet, by time, node, pair, session or code.
import { get } from "./api.js";
import { h, setText, show } from "./dom.js";
import { ago, milliseconds, moment, number, pairName } from "./format.js";
import { back, empty, filterField, focusNext, heading, nodeLink } from "./parts.js";
import { href, note } from "./routes.js";
import { problemWords } from "./telling.js";
import { t } from "./words.js";
import { now } from "./world.js";

/** @import {FailedJob} from "../shared/types" */
/** @import {Route} from "./routes.js" */

/** How far back, in seconds; none: as far as is kept. */
const SPANS = ["900", "3600", "7200", "86400", ""];
const MOST = 500;
// In the order of other tables of jobs, which narrow screens rely on.
const HEADS = [
  "jobs.job",
  "jobs.pair",
  "job.session",
  "jobs.reason",
  "jobs.node",
  "jobs.attempts",
  "jobs.took",
  "failures.when",
];
const FIGURES = new Set(["jobs.attempts", "jobs.took"]);

export class Failures {
  /** @param {Route} route */
  constructor(route) {
    this.title = t("failures.title");
    this.q = route.query.get("q") ?? "";
    this.node = route.query.get("node") ?? "";
    this.since = SPANS.find((span) => span === route.query.get("since")) ?? "7200";
    /** @type {FailedJob[]} */
    this.found = [];
    this.problem = h("p", { class: "problem", role: "alert" });
    this.count = h("p", { class: "calm count", role: "status" });
    this.body = h("tbody");
    const spans = SPANS.map((span) =>
      h("option", { value: span, selected: span === this.since }, t(`failures_since.${span || "all"}`)),
    );
    const filter = filterField(t("failures.filter"), this.q, (q) => this.choose({ q }));
    this.table = h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "table stack" },
        h("caption", { class: "unseen" }, t("failures.title")),
        h("thead", {}, h("tr", {}, HEADS.map(head))),
        this.body,
      ),
    );
    this.nothing = empty(t("failures.none"));
    this.element = h(
      "div",
      {},
      back("jobs", t("view.jobs")),
      heading(t("failures.title")),
      h(
        "div",
        { class: "tools" },
        filter,
        h(
          "select",
          { "aria-label": t("failures.since"), change: (event) => this.choose({ since: event.target.value }) },
          spans,
        ),
        this.node ? this.nodeChip() : null,
        h("button", { type: "button", click: () => this.ask() }, t("refresh")),
      ),
      this.problem,
      this.count,
      h("section", { class: "card flush" }, this.table, this.nothing),
    );
    this.ask();
  }

  /** Only of one node, until the person wants all. */
  nodeChip() {
    return h(
      "a",
      { class: "chip", href: href("failures", "", { since: this.since, q: this.q }) },
      t("failures.of_node", { node: this.node }),
    );
  }

  /** @param {{q?: string, since?: string}} chosen */
  choose({ q = this.q, since = this.since }) {
    const isOther = since !== this.since;
    this.q = q;
    this.since = since;
    note("failures", "", { q, node: this.node, since });
    if (isOther) this.ask();
    this.draw();
  }

  async ask() {
    setText(this.problem, "");
    const query = new URLSearchParams({ limit: String(MOST) });
    if (this.since) query.set("since_s", this.since);
    if (this.node) query.set("node_id", this.node);
    try {
      this.found = (await get(`v1/failures?${query}`)).failures;
    } catch (error) {
      this.found = [];
      setText(this.problem, problemWords(error));
    }
    this.draw();
  }

  draw() {
    const words = this.q.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = this.found.filter((failure) => words.every((word) => foundBy(failure).includes(word)));
    this.body.replaceChildren(...shown.map(row));
    const failed = shown.reduce((sum, failure) => sum + failure.count, 0);
    setText(this.count, shown.length ? t("failures.count", { n: failed, count: number(failed) }) : "");
    show(this.table, shown.length > 0);
    show(this.nothing, shown.length === 0);
  }

  update() {}

  /** @param {number} step */
  move(step) {
    focusNext([...this.body.querySelectorAll("th a")], step);
  }
}

/** @param {string} key */
function head(key) {
  return h("th", { scope: "col", class: FIGURES.has(key) ? "figure" : null }, t(key));
}

/** @param {FailedJob} failure */
function foundBy(failure) {
  const pair = `${failure.src}:${failure.tgt}`;
  const { job_id, node_id, session_id, tenant_id, code, reason } = failure;
  return `${job_id} ${node_id} ${session_id} ${tenant_id} ${code} ${reason} ${pair} ${pairName(pair)}`.toLowerCase();
}

/** @param {FailedJob} failure */
function row(failure) {
  const when = h(
    "time",
    { datetime: new Date(failure.at_ms).toISOString(), title: moment(failure.at_ms) },
    ago(now() - failure.at_ms),
  );
  const why = failure.count > 1 ? t("failures.summary", { count: number(failure.count) }) : failure.reason;
  const session = failure.session_id ? `${failure.session_id} · ${number(failure.utterance_index)}` : "–";
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row" },
      failure.job_id
        ? h("a", { class: "id", href: href("jobs", failure.job_id) }, failure.job_id)
        : h("span", { class: "faint" }, "–"),
    ),
    h("td", {}, failure.src ? pairName(`${failure.src}:${failure.tgt}`) : "–"),
    h("td", {}, h("span", { class: "id" }, session)),
    h(
      "td",
      { class: "reason" },
      h("strong", {}, failure.code),
      h("div", { class: "faint", lang: failure.count > 1 ? null : "en" }, why),
    ),
    h("td", {}, nodeLink(failure.node_id)),
    h("td", { class: "figure" }, number(failure.attempts)),
    h("td", { class: "figure" }, milliseconds(failure.took_ms)),
    h("td", {}, when),
  );
}
