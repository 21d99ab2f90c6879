// What a line chart draws, as values: fewer points, curves in pieces, a round end of the axis.

/** @import {Moment} from "../shared/types" */

/** @typedef {{name: string, of: (moment: Moment) => number | null}} Series */
/** @typedef {{at_ms: number, values: (number | null)[]}} Sample */
/** @typedef {{x: string, y: string}} Point on the canvas */

const POINTS = 240;

/**
 * At most POINTS of them; where several become one, the worst value is kept: a peak must not vanish.
 * @param {Moment[]} moments
 * @param {Series[]} series
 * @returns {Sample[]}
 */
export function thinned(moments, series) {
  const size = Math.ceil(moments.length / POINTS);
  const kept = [];
  for (let start = 0; start < moments.length; start += size) {
    const group = moments.slice(start, start + size);
    const values = series.map(({ of }) => {
      const known = group.flatMap((moment) => of(moment) ?? []);
      return known.length ? Math.max(...known) : null;
    });
    kept.push({ at_ms: group[group.length - 1].at_ms, values });
  }
  return kept;
}

/**
 * One curve without its holes: a new piece begins where nothing is known for longer than `holeMs`.
 * @param {Sample[]} samples
 * @param {number} place of the curve among the values
 * @param {number} holeMs
 * @returns {{atMs: number, value: number}[][]}
 */
export function pieces(samples, place, holeMs) {
  /** @type {{atMs: number, value: number}[][]} */
  const found = [];
  let before = -Infinity;
  for (const { at_ms: atMs, values } of samples) {
    const value = values[place];
    if (value === null) continue;
    if (atMs - before > holeMs) found.push([]);
    found.at(-1)?.push({ atMs, value });
    before = atMs;
  }
  return found;
}

/**
 * Which of the samples is nearest to a time.
 * @param {Sample[]} samples
 * @param {number} atMs
 */
export function nearest(samples, atMs) {
  let best = 0;
  for (let place = 1; place < samples.length; place += 1) {
    if (Math.abs(samples[place].at_ms - atMs) < Math.abs(samples[best].at_ms - atMs)) best = place;
  }
  return best;
}

/**
 * The next round number, so that the axis says 200 and not 173.
 * @param {number} value
 */
export function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 3, 4, 5, 6, 8].find((step) => step * power >= value) ?? 10) * power;
}
