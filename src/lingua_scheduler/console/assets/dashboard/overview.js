// The first page: is all well, what is not, and how it went in the last half hour.
import { recall, remember } from "../shared/storage.js";
import { AlarmList } from "./alarms.js";
import { LineChart } from "./chart.js";
import { h, Keyed, setText, show } from "./dom.js";
import { EventList } from "./events.js";
import { duration, milliseconds, number, rate } from "./format.js";
import { command, empty, focusPressed, heading, LoadBar, Mark, nodeCommand, nodeLink, pairLink } from "./parts.js";
import { seen, StateMark } from "./parts.js";
import { href } from "./routes.js";
import { jobStateWord, missingWord } from "./telling.js";
import { roomInWords, wideInWords } from "./wide.js";
import { t } from "./words.js";
import { headroom, lastPicture, now, sickNodes, world } from "./world.js";

/** @import {NodeLook, PairLook} from "../shared/types" */
/** @import {Child} from "./dom.js" */
/** @import {Series} from "./scale.js" */
/** @import {Changed} from "./world.js" */

const SHOWN = 5;
const EVENTS = 12;
const SPANS_MIN = [5, 30];
const OUTCOMES = ["DONE", "NO_TEXT", "FAILED", "CANCELLED"];

export class Overview {
  constructor() {
    this.title = t("view.overview");
    this.alarms = new AlarmList();
    this.events = new EventList();
    this.ended = OUTCOMES.map(() => h("strong"));
    this.thin = list();
    this.thinRows = new Keyed(this.thin, (pair) => new PairLine(pair));
    this.sick = list();
    this.sickRows = new Keyed(this.sick, (node) => new NodeLine(node));
    this.wellNote = h("p", { class: "calm" });
    this.pairNote = h("p", { class: "calm" }, t("pairs.none"));
    this.spans = h("div", { class: "choices", role: "group", "aria-label": t("chart.span") });
    this.board = h("div", { class: "charts" });
    /** @type {LineChart[]} */
    this.charts = [];
    this.setSpan(Number(recall("span")) === 30 ? 30 : 5);
    this.start = empty(t("nodes.empty"), h("p", {}, t("nodes.empty_step")), command(nodeCommand()));
    const outcomes = OUTCOMES.map((state, place) => h("span", {}, this.ended[place], ` ${jobStateWord(state)}`));
    this.element = h(
      "div",
      { class: "overview" },
      heading(t("view.overview"), this.spans),
      this.start,
      h(
        "div",
        { class: "columns" },
        h(
          "div",
          { class: "wide" },
          this.board,
          h(
            "div",
            { class: "pairs-and-nodes" },
            section(t("pairs.thinnest"), href("pairs"), this.thin, this.pairNote),
            section(t("nodes.sick"), href("nodes"), this.sick, this.wellNote),
          ),
          h("section", { class: "card outcomes" }, h("h2", {}, t("outcomes.title")), h("p", {}, outcomes)),
        ),
        h(
          "div",
          { class: "side" },
          section(t("alarms.title"), null, this.alarms.element),
          section(t("events.title"), null, this.events.element),
        ),
      ),
    );
  }

  /** @param {number} minutes */
  setSpan(minutes) {
    this.span = minutes;
    remember("span", minutes);
    this.charts.forEach((chart) => chart.close());
    this.charts = charts(minutes * 60_000);
    this.board.replaceChildren(...this.charts.map((chart) => chart.element));
    const choices = SPANS_MIN.map((one) =>
      h(
        "button",
        { type: "button", "aria-pressed": String(one === minutes), click: () => this.choose(one) },
        t("unit.min", { n: one }),
      ),
    );
    this.spans.replaceChildren(...choices);
  }

  /** @param {number} minutes */
  choose(minutes) {
    this.setSpan(minutes);
    this.drawCharts();
    focusPressed(this.spans);
  }

  close() {
    this.charts.forEach((chart) => chart.close());
  }

  /** @param {Changed} changed */
  update(changed) {
    const picture = lastPicture();
    show(this.start, world.nodes.size === 0);
    if (changed.has("now")) this.drawCharts();
    if (changed.has("jobs_ended")) {
      OUTCOMES.forEach((state, place) => setText(this.ended[place], number(picture.jobs_ended[state] ?? 0)));
    }
    if (changed.has("pairs", "wide", "alarms")) this.showPairs();
    this.tick();
  }

  drawCharts() {
    for (const chart of this.charts) chart.show(world.history, lastPicture().at_ms);
  }

  showPairs() {
    const pairs = [...world.pairs.values()].filter((pair) => pair.src !== pair.tgt);
    const thin = pairs.sort((one, other) => thinness(one) - thinness(other) || one.slots - other.slots);
    this.thinRows.show(thin.slice(0, SHOWN), (pair) => `${pair.src}:${pair.tgt}`);
    show(this.pairNote, thin.length === 0);
    const wide = [...world.wide.values()].map((one) => `${wideInWords(one)}: ${roomInWords(one)}`);
    setText(this.pairNote, wide.slice(0, SHOWN).join(" · ") || t("pairs.none"));
  }

  /** What also changes while nothing happens: how long ago everything was. */
  tick() {
    this.alarms.show(lastPicture().alarms);
    this.events.show([...world.events].reverse(), EVENTS);
    const sick = sickNodes().slice(0, SHOWN);
    this.sickRows.show(sick, (node) => node.node_id);
    show(this.wellNote, sick.length === 0);
    const well = lastPicture().is_stale ? "nodes.unknown" : "nodes.all_well";
    setText(this.wellNote, t(world.nodes.size ? well : "nodes.empty"));
  }
}

/**
 * Order: no node, then one node only, then by free slots.
 * @param {PairLook} pair
 */
function thinness(pair) {
  return headroom(pair) + (pair.hangs_on ? 0 : 1);
}

function list() {
  return h("ul", { class: "lines" });
}

/**
 * @param {string} title
 * @param {string | null} link
 * @param {...Child} children
 */
function section(title, link, ...children) {
  const head = h("h2", {}, link ? h("a", { href: link }, title) : title);
  return h("section", { class: "card" }, head, ...children);
}

class PairLine {
  /** @param {PairLook} pair */
  constructor(pair) {
    this.mark = new Mark();
    this.load = h("span", { class: "figure" });
    this.only = h("span", { class: "faint" });
    const told = h("span", { class: "line-main" }, pairLink(`${pair.src}:${pair.tgt}`), " ", this.only);
    this.element = h("li", {}, this.mark.element, told, this.load);
  }

  /** @param {PairLook} pair */
  update(pair) {
    this.mark.show(pair.level ?? "good");
    const { alarms } = lastPicture();
    const room = pair.nodes
      ? t("pairs.free_of", { free: number(pair.free), slots: number(pair.slots) })
      : missingWord(`${pair.src}:${pair.tgt}`, alarms, world.nodes.values());
    setText(this.load, room);
    setText(this.only, pair.hangs_on ? t("pairs.only", { node: pair.hangs_on }) : "");
  }
}

/** @param {NodeLook} node */
function resting({ held }) {
  return held ? t("nodes.drains", { n: held, count: number(held) }) : t("nodes.drained");
}

/**
 * Beside its state: how long it lasts, or when the node was last heard.
 * @param {NodeLook} node
 */
function standing(node) {
  if (node.state === "draining") return resting(node);
  const left = node.quarantined_until_ms - now();
  return left > 0 ? t("node.out_for", { time: duration(left) }) : t("nodes.heartbeat", { ago: seen(node) });
}

class NodeLine {
  /** @param {NodeLook} node */
  constructor(node) {
    this.state = new StateMark();
    this.load = new LoadBar();
    this.seen = h("span", { class: "faint" });
    const told = h("span", { class: "line-main" }, nodeLink(node.node_id), " ", this.seen);
    this.element = h("li", {}, this.state.element, told, this.load.element);
  }

  /** @param {NodeLook} node */
  update(node) {
    this.state.show(node);
    this.load.show(node.held, node.max_jobs);
    setText(this.seen, standing(node));
  }
}

/** @param {number} spanMs */
function charts(spanMs) {
  /**
   * @param {string} title
   * @param {(value: number) => string} format
   * @param {[string, Series["of"]][]} series
   */
  const make = (title, format, series) =>
    new LineChart({ title: t(title), format, spanMs, series: series.map(([name, of]) => ({ name: t(name), of })) });
  return [
    make("chart.jobs", (value) => t("unit.per_s", { n: rate(value) }), [
      ["chart.done", (moment) => moment.done_per_s],
      ["chart.no_text", (moment) => moment.no_text_per_s],
      ["chart.failed", (moment) => moment.failed_per_s],
    ]),
    make("chart.latency", milliseconds, [
      ["chart.p50", (moment) => moment.p50_ms],
      ["chart.p95", (moment) => moment.p95_ms],
      ["chart.p99", (moment) => moment.p99_ms],
    ]),
    make("chart.sessions", (value) => number(value, 1), [
      ["chart.sessions", (moment) => moment.sessions],
      ["chart.waiting", (moment) => moment.jobs_waiting],
    ]),
    make("chart.slots", (value) => number(value, 1), [
      ["chart.taken", (moment) => moment.slots_taken],
      ["chart.total", (moment) => moment.slots_total],
    ]),
  ];
}
