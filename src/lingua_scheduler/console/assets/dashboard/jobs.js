// Jobs worth a look: those that failed, those that took long, and the latest of any state.
import { get } from "./api.js";
import { h, Keyed, setText, show } from "./dom.js";
import { ago, milliseconds, number, pairName } from "./format.js";
import { empty, filterField, focusNext, heading, nodeLink } from "./parts.js";
import { go, href, note } from "./routes.js";
import { jobStateWord, problemWords } from "./telling.js";
import { t } from "./words.js";
import { now, world } from "./world.js";

/** @import {JobLook, JobView} from "../shared/types" */
/** @import {Route} from "./routes.js" */

const STATES = ["FAILED", "RETRYING", "RUNNING", "DISPATCHED", "CREATED", "DONE", "NO_TEXT", "CANCELLED"];
const LATEST = 50;
const FIGURES = new Set(["jobs.attempts", "jobs.took"]);

export class Jobs {
  /** @param {Route} route */
  constructor(route) {
    this.title = t("view.jobs");
    this.q = route.query.get("q") ?? "";
    this.state = STATES.find((state) => state === route.query.get("state")) ?? "";
    this.failed = new JobTable(t("jobs.failed"), t("jobs.none_failed"));
    this.slow = new JobTable(t("jobs.slow"), t("jobs.none_slow"));
    this.latest = new JobTable(t("jobs.latest"), t("jobs.none_latest"));
    /** @type {JobLook[]} */
    this.found = [];
    this.problem = h("p", { class: "problem", role: "alert" });
    const choices = ["", ...STATES].map((state) =>
      h("option", { value: state, selected: state === this.state }, state ? jobStateWord(state) : t("jobs.live")),
    );
    const filter = filterField(t("jobs.filter"), this.q, (q) => this.choose({ q }));
    filter.addEventListener("keydown", (event) => {
      // A whole id is a destination.
      if (event.key === "Enter" && filter.value.trim().startsWith("job-")) go("jobs", filter.value.trim());
    });
    const states = h(
      "select",
      { "aria-label": t("jobs.show"), change: (event) => this.choose({ state: event.target.value }) },
      choices,
    );
    this.refresh = h("button", { type: "button", click: () => this.ask() }, t("refresh"));
    this.element = h(
      "div",
      {},
      heading(t("view.jobs"), h("a", { href: href("failures") }, t("failures.all"))),
      h("div", { class: "tools" }, filter, states, this.refresh),
      this.problem,
      this.failed.element,
      this.slow.element,
      this.latest.element,
    );
    if (this.state) this.ask();
  }

  /** @param {{q?: string, state?: string}} chosen */
  choose({ q = this.q, state = this.state }) {
    const isOther = state !== this.state;
    this.q = q;
    this.state = state;
    note("jobs", "", { q, state });
    if (isOther && state) this.ask();
    this.update();
  }

  async ask() {
    setText(this.problem, "");
    try {
      const { jobs } = await get(`v1/jobs?state=${this.state}&limit=${LATEST}`);
      this.found = jobs.map(asLook);
    } catch (error) {
      this.found = [];
      setText(this.problem, problemWords(error));
    }
    this.update();
  }

  update() {
    const words = this.q.toLowerCase().split(/\s+/).filter(Boolean);
    const isFound = (/** @type {JobLook} */ job) => words.every((word) => foundBy(job).includes(word));
    const isLive = !this.state;
    show(this.failed.element, isLive);
    show(this.slow.element, isLive);
    show(this.latest.element, !isLive);
    show(this.refresh, !isLive);
    if (isLive && world.picture !== null) {
      this.failed.show(world.picture.failures.filter(isFound));
      this.slow.show(world.picture.slow.filter(isFound));
    } else {
      this.latest.show(this.found.filter(isFound));
    }
  }

  tick() {
    this.update();
  }

  /** @param {number} step */
  move(step) {
    focusNext([...this.element.querySelectorAll("section:not([hidden]) tbody th a")], step);
  }
}

/**
 * A job as the API tells it, in the words of a picture.
 * @param {JobView} job
 * @returns {JobLook}
 */
function asLook(job) {
  const times = Object.values(job.times_ms);
  const created = Math.min(...times);
  const ended = Math.max(...times);
  return {
    job_id: job.job_id,
    state: job.state,
    src: job.src_lang,
    tgt: job.tgt_lang,
    node_id: job.node_id,
    attempts: job.attempt,
    reason: job.reason,
    ended_at_ms: times.length ? ended : 0,
    took_ms: times.length ? ended - created : 0,
    session_id: job.session_id,
    utterance_index: job.utterance_index,
  };
}

/** @param {JobLook} job */
function foundBy(job) {
  const pair = `${job.src}:${job.tgt}`;
  return `${job.job_id} ${job.node_id} ${job.session_id ?? ""} ${job.reason} ${pair} ${pairName(pair)}`.toLowerCase();
}

class JobTable {
  /**
   * @param {string} title
   * @param {string} nothing
   */
  constructor(title, nothing) {
    this.body = h("tbody");
    this.rows = new Keyed(this.body, (job) => new Row(job));
    const heads = [
      "jobs.job",
      "jobs.pair",
      "jobs.state",
      "jobs.reason",
      "jobs.node",
      "jobs.attempts",
      "jobs.took",
      "jobs.ended",
    ];
    this.table = h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "table stack" },
        h("caption", { class: "unseen" }, title),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            heads.map((key) => h("th", { scope: "col", class: FIGURES.has(key) ? "figure" : null }, t(key))),
          ),
        ),
        this.body,
      ),
    );
    this.nothing = empty(nothing);
    this.element = h("section", { class: "card flush" }, h("h2", { class: "inset" }, title), this.table, this.nothing);
  }

  /** @param {JobLook[]} jobs */
  show(jobs) {
    this.rows.show(jobs, (job) => job.job_id || `${job.session_id} ${job.utterance_index} ${job.ended_at_ms}`);
    show(this.table, jobs.length > 0);
    show(this.nothing, jobs.length === 0);
  }
}

class Row {
  /** @param {JobLook} job */
  constructor(job) {
    this.state = h("td");
    this.nodeId = "";
    this.reason = h("td", { class: "reason" });
    this.node = h("td");
    this.attempts = h("td", { class: "figure" });
    this.took = h("td", { class: "figure" });
    this.ended = h("td");
    // Without a record there is nothing to open.
    const link = job.job_id
      ? h("a", { class: "id", href: href("jobs", job.job_id) }, job.job_id)
      : h("span", { class: "faint" }, "–");
    const pair = h("td", {}, job.src ? pairName(`${job.src}:${job.tgt}`) : "–");
    this.element = h(
      "tr",
      {},
      h("th", { scope: "row" }, link),
      pair,
      this.state,
      this.reason,
      this.node,
      this.attempts,
      this.took,
      this.ended,
    );
  }

  /** @param {JobLook} job */
  update(job) {
    setText(this.state, jobStateWord(job.state));
    setText(this.reason, job.reason || "–");
    if (this.nodeId !== job.node_id || !this.node.firstChild) this.node.replaceChildren(nodeLink(job.node_id));
    this.nodeId = job.node_id;
    setText(this.attempts, number(job.attempts));
    setText(this.took, milliseconds(job.took_ms));
    setText(this.ended, job.ended_at_ms ? ago(now() - job.ended_at_ms) : "–");
  }
}
