// A small line chart: axes, units, values under the pointer or the arrow keys, and its story in words.
import { h, setAttribute, setText, svg } from "./dom.js";
import { clock, clockShort } from "./format.js";
import { ceiling, nearest, pieces, thinned } from "./scale.js";
import { t } from "./words.js";

/** @import {Moment} from "../shared/types" */
/** @import {Point, Sample, Series} from "./scale.js" */

const HEIGHT = 124;
const LEFT = 50;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 20;
// A hole in time is drawn as a hole.
const HOLE_MS = 20_000;

export class LineChart {
  /** @param {{title: string, series: Series[], format: (value: number) => string, spanMs: number}} chart */
  constructor({ title, series, format, spanMs }) {
    this.title = title;
    this.series = series;
    // Writes a value with its unit.
    this.format = format;
    this.spanMs = spanMs;
    this.endMs = NaN;
    this.width = 0;
    this.top = 1;
    /** @type {Sample[]} */
    this.moments = [];
    /** @type {number | null} */
    this.cursor = null;
    this.values = series.map(() => h("span", { class: "chart-value" }));
    const legend = series.map((one, place) =>
      h(
        "span",
        { class: "chart-key" },
        sample(place),
        h("span", { class: "chart-name" }, one.name),
        this.values[place],
      ),
    );
    this.when = h("span", { class: "chart-when" });
    this.grid = svg("g", { class: "chart-grid" });
    this.area = svg("path", { class: "chart-area" });
    this.paths = series.map((_, place) => svg("path", { class: `chart-line series-${place}` }));
    this.line = svg("line", { class: "chart-cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    this.canvas = svg(
      "svg",
      { class: "chart-canvas", height: HEIGHT, "aria-hidden": "true" },
      this.grid,
      this.area,
      ...this.paths,
      this.line,
    );
    // The slider lets screen readers move through time.
    this.box = h(
      "div",
      {
        class: "chart-box",
        role: "slider",
        tabindex: "0",
        "aria-label": title,
        keydown: (event) => this.key(event),
        pointermove: (event) => this.point(event),
        pointerleave: () => this.pick(null),
        blur: () => this.pick(null),
      },
      this.canvas,
    );
    this.summary = h("p", { class: "unseen" });
    this.element = h(
      "figure",
      { class: "card chart" },
      h("figcaption", { class: "chart-head" }, h("h2", {}, title), this.when),
      h("div", { class: "chart-legend" }, legend),
      this.box,
      this.summary,
    );
    this.sizes = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width === this.width) return;
      this.width = width;
      this.draw();
    });
    this.sizes.observe(this.box);
  }

  close() {
    this.sizes.disconnect();
  }

  /**
   * @param {Moment[]} history
   * @param {number} endMs
   */
  show(history, endMs) {
    this.endMs = endMs;
    const from = endMs - this.spanMs;
    this.moments = thinned(
      history.filter((moment) => moment.at_ms >= from),
      this.series,
    );
    this.draw();
  }

  draw() {
    if (!this.width || Number.isNaN(this.endMs)) return;
    const known = this.moments.flatMap((moment) => moment.values.filter((value) => value !== null));
    const top = ceiling(Math.max(0, ...known));
    this.top = top;
    setAttribute(this.canvas, "width", this.width);
    this.drawGrid(top, known.length > 0);
    this.paths.forEach((path, place) => setAttribute(path, "d", this.path(place)));
    setAttribute(this.area, "d", this.shade());
    this.tell();
  }

  /** @param {number} atMs */
  x(atMs) {
    return LEFT + ((atMs - this.endMs + this.spanMs) / this.spanMs) * (this.width - LEFT - RIGHT);
  }

  /** @param {number} value */
  y(value) {
    return HEIGHT - BOTTOM - (value / this.top) * (HEIGHT - TOP - BOTTOM);
  }

  /**
   * @param {number} top
   * @param {boolean} hasScale
   */
  drawGrid(top, hasScale) {
    const parts = [];
    const told = new Set();
    // The middle comes last: where figures are too small to tell it from an end, it says nothing.
    for (const share of [0, 1, 0.5]) {
      const y = this.y(top * share);
      const words = this.format(top * share);
      parts.push(svg("line", { x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }));
      if (hasScale && !told.has(words)) parts.push(svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, words));
      told.add(words);
    }
    const step = this.spanMs / 5;
    for (let at = Math.ceil((this.endMs - this.spanMs) / step) * step; at <= this.endMs; at += step) {
      const x = this.x(at);
      if (x < LEFT + 14 || x > this.width - 18) continue;
      parts.push(svg("text", { x, y: HEIGHT - 4, "text-anchor": "middle" }, clockShort(at)));
    }
    this.grid.replaceChildren(...parts);
  }

  /**
   * Pieces of a curve without a hole in them, as points on the canvas.
   * @param {number} place
   * @returns {Point[][]}
   */
  pieces(place) {
    const holeMs = Math.max(HOLE_MS, this.spanMs / 40);
    return pieces(this.moments, place, holeMs).map((piece) =>
      piece.map(({ atMs, value }) => ({ x: this.x(atMs).toFixed(1), y: this.y(value).toFixed(1) })),
    );
  }

  /** @param {number} place */
  path(place) {
    // A line of no length is drawn as a dot.
    return this.pieces(place)
      .map(([first, ...rest]) => `M${first.x} ${first.y}h0${joined(rest)}`)
      .join("");
  }

  /** What lies under the first curve. */
  shade() {
    const floor = HEIGHT - BOTTOM;
    const under = (/** @type {Point[]} */ points) =>
      `M${points[0].x} ${floor}${joined(points)}L${points[points.length - 1].x} ${floor}Z`;
    return this.pieces(0).map(under).join("");
  }

  /** @param {PointerEvent} event */
  point(event) {
    if (!this.moments.length || !this.width) return;
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    const atMs = this.endMs - this.spanMs + ((x - LEFT) / (this.width - LEFT - RIGHT)) * this.spanMs;
    this.pick(nearest(this.moments, atMs));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    /** @type {Record<string, number>} */
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || !this.moments.length) return;
    event.preventDefault();
    const last = this.moments.length - 1;
    const place = this.cursor === null ? last : nearest(this.moments, this.cursor);
    this.pick(Math.min(last, Math.max(0, place + steps[event.key])));
  }

  /** @param {number | null} place */
  pick(place) {
    this.cursor = place === null ? null : this.moments[place].at_ms;
    this.tell();
  }

  /** The values of the chosen moment, or of the latest. */
  tell() {
    if (!this.moments.length) {
      setText(this.when, t("chart.empty"));
      setAttribute(this.box, "aria-valuenow", 0);
      setAttribute(this.box, "aria-valuetext", t("chart.empty"));
      return;
    }
    const last = this.moments.length - 1;
    const place = this.cursor === null ? last : nearest(this.moments, this.cursor);
    const moment = this.moments[place];
    const words = moment.values.map((value) => (value === null ? "–" : this.format(value)));
    words.forEach((word, index) => setText(this.values[index], word));
    setText(this.when, this.cursor === null ? t("chart.now") : clock(moment.at_ms));
    setAttribute(this.line, "visibility", this.cursor === null ? "hidden" : "visible");
    setAttribute(this.line, "x1", this.x(moment.at_ms));
    setAttribute(this.line, "x2", this.x(moment.at_ms));
    const named = words.map((word, index) => `${this.series[index].name} ${word}`).join(", ");
    setAttribute(this.box, "aria-valuemin", 0);
    setAttribute(this.box, "aria-valuemax", last);
    setAttribute(this.box, "aria-valuenow", place);
    setAttribute(this.box, "aria-valuetext", `${clock(moment.at_ms)}: ${named}`);
    setText(this.summary, this.story());
  }

  story() {
    const told = this.series.map((one, place) => {
      const values = this.moments.flatMap((moment) => moment.values[place] ?? []);
      if (!values.length) return "";
      const [low, high] = [Math.min(...values), Math.max(...values)].map(this.format);
      const last = this.moments[this.moments.length - 1].values[place];
      return t("chart.story", { name: one.name, low, high, last: last === null ? "–" : this.format(last) });
    });
    return `${this.title}. ${told.filter(Boolean).join(" ")}`;
  }
}

/** @param {Point[]} points */
function joined(points) {
  return points.map(({ x, y }) => `L${x} ${y}`).join("");
}

/** @param {number} place */
function sample(place) {
  return svg(
    "svg",
    { class: "chart-sample", width: 16, height: 8, "aria-hidden": "true" },
    svg("path", { class: `chart-line series-${place}`, d: "M1 4H15" }),
  );
}
