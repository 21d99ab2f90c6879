// One node: how it is, what it can do, what happened to it; draining, evicting and releasing it.
import { AlarmList } from "./alarms.js";
import { get, part } from "./api.js";
import { askToDrain, askToResume, DrainProgress } from "./draining.js";
import { askToEvict, askToRelease } from "./evicting.js";
import { h, Keyed, setText, show } from "./dom.js";
import { EventList, eventKey } from "./events.js";
import { factsOf } from "./facts.js";
import { duration, languageName, number } from "./format.js";
import { NodeHealth } from "./node-health.js";
import { back, empty, factList, heading, LoadBar, seen, StateMark } from "./parts.js";
import { may } from "./person.js";
import { href } from "./routes.js";
import { jobStateWord } from "./telling.js";
import { t } from "./words.js";
import { alarmsAbout, now, world } from "./world.js";

/** @import {Happening, JobView, NodeLook} from "../shared/types" */
/** @import {Route} from "./routes.js" */

const EVENTS_ASKED = 500;
const EVENTS_SHOWN = 50;
const JOBS_MS = 2000;

export class Node {
  /** @param {Route} route */
  constructor(route) {
    this.nodeId = route.id;
    this.title = route.id;
    /** @type {Happening[]} */
    this.earlier = [];
    /** @type {string[] | null} */
    this.shown = null;
    this.state = new StateMark();
    this.load = new LoadBar();
    this.fields = Object.fromEntries(
      ["seen", "instance", "services", "unavailable", "machine", "version", "shard", "pairs"].map((name) => [
        name,
        h("span"),
      ]),
    );
    this.languages = h("p", { class: "chips" });
    this.button = h("button", { type: "button", class: "primary", click: () => this.act() });
    this.evict = h("button", { type: "button", click: () => askToEvict(this.nodeId) }, t("evict.evict"));
    this.release = h("button", { type: "button", click: () => askToRelease(this.nodeId) }, t("release.release"));
    this.health = new NodeHealth(route.id);
    this.progress = new DrainProgress();
    this.alarms = new AlarmList();
    this.alarmCard = h("section", { class: "card" }, h("h2", {}, t("alarms.title")), this.alarms.element);
    this.events = new EventList();
    this.jobs = h("ul", { class: "lines" });
    this.jobRows = new Keyed(this.jobs, (job) => new JobLine(job));
    this.idle = h("p", { class: "calm" }, t("node.no_jobs"));
    this.gone = empty(t("node.gone"), h("p", {}, t("node.gone_step")));
    const { fields } = this;
    this.card = h(
      "section",
      { class: "card" },
      h("h2", {}, t("node.facts")),
      factList([
        [t("nodes.state"), this.state.element],
        [t("nodes.load"), this.load.element],
        [t("nodes.seen"), fields.seen],
        [t("node.instance"), fields.instance],
        [t("node.machine"), fields.machine],
        [t("node.services"), fields.services],
        [t("node.unavailable"), fields.unavailable],
        [t("node.version"), fields.version],
        [t("node.shard"), fields.shard],
        [t("node.pairs"), fields.pairs],
      ]),
      h("h3", {}, t("nodes.languages")),
      this.languages,
    );
    this.element = h(
      "div",
      {},
      back("nodes", t("view.nodes")),
      heading(route.id, may("fleet:operate") && h("div", { class: "actions" }, this.release, this.evict, this.button)),
      this.gone,
      this.progress.element,
      h(
        "div",
        { class: "columns" },
        h("div", { class: "wide" }, this.alarmCard, this.health.element, this.card),
        h(
          "div",
          { class: "side" },
          h("section", { class: "card" }, h("h2", {}, t("node.jobs")), this.jobs, this.idle),
          h("section", { class: "card" }, h("h2", {}, t("node.history")), this.events.element),
        ),
      ),
    );
    this.askForEvents();
    this.askForJobs();
    this.timer = setInterval(() => this.askForJobs(), JOBS_MS);
  }

  close() {
    clearInterval(this.timer);
  }

  act() {
    if (world.nodes.get(this.nodeId)?.state === "draining") askToResume(this.nodeId);
    else askToDrain(this.nodeId);
  }

  update() {
    const node = world.nodes.get(this.nodeId);
    show(this.gone, node === undefined);
    show(this.card, node !== undefined);
    show(this.button, node !== undefined);
    show(this.evict, node !== undefined);
    show(this.release, (node?.quarantined_until_ms ?? 0) > 0);
    this.progress.update(node);
    if (node !== undefined) this.describe(node);
    const alarms = alarmsAbout(this.nodeId);
    this.alarms.show(alarms);
    show(this.alarmCard, alarms.length > 0);
    const lived = world.events.filter((event) => isAbout(event, this.nodeId));
    const known = new Set(lived.map(eventKey));
    const all = [...this.earlier.filter((event) => !known.has(eventKey(event))), ...lived];
    this.events.show(all.reverse(), EVENTS_SHOWN);
  }

  tick() {
    this.update();
  }

  /** @param {NodeLook} node */
  describe(node) {
    const { fields } = this;
    this.state.show(node);
    this.load.show(node.held, node.max_jobs);
    setText(this.button, t(node.state === "draining" ? "drain.resume" : "drain.drain"));
    const left = node.quarantined_until_ms - now();
    setText(fields.seen, left > 0 ? `${seen(node)} · ${t("node.out_for", { time: duration(left) })}` : seen(node));
    setText(fields.instance, node.instance_id);
    setText(fields.machine, machine(node));
    setText(fields.services, node.services.join(", ") || "–");
    setText(fields.unavailable, node.unavailable.join(", ") || "–");
    setText(fields.version, [node.version, node.platform].filter(Boolean).join(" · ") || "–");
    setText(fields.shard, number(node.shard));
    setText(
      fields.pairs,
      t("node.pair_counts", { speech: number(factsOf(node).speech.size), text: number(factsOf(node).text.size) }),
    );
    const { languages } = factsOf(node);
    if (this.shown !== languages) {
      this.languages.replaceChildren(...languages.map((code) => h("span", { class: "chip" }, languageName(code))));
    }
    this.shown = languages;
  }

  async askForEvents() {
    /** @type {{events: Happening[]}} */
    const { events } = await get(`v1/events?limit=${EVENTS_ASKED}`).catch(() => ({ events: [] }));
    this.earlier = events.filter((event) => isAbout(event, this.nodeId)).reverse();
    if (world.picture !== null) this.update();
  }

  async askForJobs() {
    if (document.hidden) return;
    const found = await get(`v1/nodes/${part(this.nodeId)}`).catch(() => null);
    const jobs = found?.jobs ?? [];
    this.health.show(found?.lately);
    this.jobRows.show(jobs, (job) => job.job_id);
    show(this.idle, jobs.length === 0);
  }
}

/**
 * @param {Happening} event
 * @param {string} nodeId
 */
function isAbout(event, nodeId) {
  return event.subject === nodeId || event.values.node_id === nodeId;
}

/** @param {NodeLook} node */
function machine(node) {
  const loads = Object.entries({ cpu: node.cpu, memory: node.memory, gpu: node.gpu });
  const told = loads.flatMap(([name, load]) => (load === null ? [] : `${t(`node.${name}`)} ${number(load)} %`));
  return told.join(" · ") || "–";
}

class JobLine {
  /** @param {JobView} job */
  constructor(job) {
    this.state = h("span", { class: "faint" });
    const link = h("a", { class: "id", href: href("jobs", job.job_id) }, job.job_id);
    this.element = h("li", {}, h("span", { class: "line-main" }, link), this.state);
  }

  /** @param {JobView} job */
  update(job) {
    setText(this.state, jobStateWord(job.state));
  }
}
