// A small line chart: axes, units, values under the pointer or the arrow keys, and its story in words.
import { h, setAttribute, setText, svg } from "./dom.js";
import { clock, clockShort } from "./format.js";
import { t } from "./words.js";

const HEIGHT = 124;
const LEFT = 50;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 20;
const POINTS = 240;
// A hole in time is drawn as a hole.
const HOLE_MS = 20_000;

/** `series`: `{name, of(moment)}`; `format` writes a value with its unit. */
export class LineChart {
  constructor({ title, series, format, spanMs }) {
    Object.assign(this, { title, series, format, spanMs });
    this.width = 0;
    this.moments = [];
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
    // Time is what one moves through: a slider says so to whoever cannot see the curve.
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
    if (!this.width || this.endMs === undefined) return;
    const known = this.moments.flatMap((moment) => moment.values.filter((value) => value !== null));
    const top = ceiling(Math.max(0, ...known));
    this.x = (atMs) => LEFT + ((atMs - this.endMs + this.spanMs) / this.spanMs) * (this.width - LEFT - RIGHT);
    this.y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
    setAttribute(this.canvas, "width", this.width);
    this.drawGrid(top, known.length > 0);
    this.paths.forEach((path, place) => setAttribute(path, "d", this.path(place)));
    setAttribute(this.area, "d", this.shade());
    this.tell();
  }

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

  /** Pieces of a curve without a hole in them, as points on the canvas. */
  pieces(place) {
    const pieces = [];
    let before = -Infinity;
    for (const moment of this.moments) {
      const value = moment.values[place];
      if (value === null) continue;
      if (moment.at_ms - before > Math.max(HOLE_MS, this.spanMs / 40)) pieces.push([]);
      const [x, y] = [this.x(moment.at_ms).toFixed(1), this.y(value).toFixed(1)];
      pieces.at(-1).push({ x, y, toString: () => `${x} ${y}` });
      before = moment.at_ms;
    }
    return pieces;
  }

  path(place) {
    // A line of no length is drawn as a dot.
    return this.pieces(place)
      .map(([first, ...rest]) => `M${first}h0${joined(rest)}`)
      .join("");
  }

  /** What lies under the first curve. */
  shade() {
    const floor = HEIGHT - BOTTOM;
    const piece = (points) => `M${points[0].x} ${floor}${joined(points)}L${points.at(-1).x} ${floor}Z`;
    return this.pieces(0).map(piece).join("");
  }

  point(event) {
    if (!this.moments.length || !this.x) return;
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    const atMs = this.endMs - this.spanMs + ((x - LEFT) / (this.width - LEFT - RIGHT)) * this.spanMs;
    this.pick(nearest(this.moments, atMs));
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || !this.moments.length) return;
    event.preventDefault();
    const last = this.moments.length - 1;
    const place = this.cursor === null ? last : nearest(this.moments, this.cursor);
    this.pick(Math.min(last, Math.max(0, place + steps[event.key])));
  }

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
      const values = this.moments.map((moment) => moment.values[place]).filter((value) => value !== null);
      if (!values.length) return "";
      const [low, high] = [Math.min(...values), Math.max(...values)].map(this.format);
      return t("chart.story", { name: one.name, low, high, last: this.format(values.at(-1)) });
    });
    return `${this.title}. ${told.filter(Boolean).join(" ")}`;
  }
}

function joined(points) {
  return points.map((point) => `L${point}`).join("");
}

function sample(place) {
  return svg(
    "svg",
    { class: "chart-sample", width: 16, height: 8, "aria-hidden": "true" },
    svg("path", { class: `chart-line series-${place}`, d: "M1 4H15" }),
  );
}

/** At most POINTS of them; where several become one, the worst value is kept: a peak must not vanish. */
function thinned(moments, series) {
  const size = Math.ceil(moments.length / POINTS);
  const kept = [];
  for (let start = 0; start < moments.length; start += size) {
    const group = moments.slice(start, start + size);
    const values = series.map(({ of }) => {
      const known = group.map(of).filter((value) => value !== null);
      return known.length ? Math.max(...known) : null;
    });
    kept.push({ at_ms: group.at(-1).at_ms, values });
  }
  return kept;
}

function nearest(moments, atMs) {
  let best = 0;
  for (let place = 1; place < moments.length; place += 1) {
    if (Math.abs(moments[place].at_ms - atMs) < Math.abs(moments[best].at_ms - atMs)) best = place;
  }
  return best;
}

/** The next round number, so that the axis says 200 and not 173. */
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value) * power;
}
