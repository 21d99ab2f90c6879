// A long table of which only the rows in sight exist: a thousand nodes cost as much as twenty.
import { setAttribute } from "./dom.js";

const SPARE = 4;

/**
 * @template T
 * @typedef {{element: HTMLElement, link: HTMLElement, update(item: T): void}} VirtualRow
 */

/**
 * Which rows of a list exist: those in sight and a few more at either end.
 * @param {{top: number, height: number, count: number, sight: number}} view `top` of the list and `sight` in pixels
 * @returns {{first: number, last: number}} the first row, and the one after the last
 */
export function inSight({ top, height, count, sight }) {
  const above = Math.max(0, Math.floor(-top / height) - SPARE);
  const last = Math.min(count, above + Math.ceil(sight / height) + 2 * SPARE);
  return { first: Math.min(above, Math.max(0, last - 1)), last };
}

/**
 * Every row is as high as the CSS says in `--row`.
 * @template T
 */
export class VirtualRows {
  /**
   * @param {HTMLElement} body
   * @param {() => VirtualRow<T>} make
   */
  constructor(body, make) {
    this.body = body;
    this.make = make;
    /** @type {VirtualRow<T>[]} */
    this.rows = [];
    /** @type {readonly T[]} */
    this.items = [];
    this.first = 0;
    this.height = 0;
    this.frame = 0;
    this.active = -1;
    this.onScroll = () => {
      if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
    };
    addEventListener("scroll", this.onScroll, { passive: true });
    addEventListener("resize", this.onScroll);
    body.addEventListener("focusin", (event) => {
      const row = this.rows.find(({ element }) => event.target instanceof Node && element.contains(event.target));
      if (row) this.active = this.first + this.rows.indexOf(row);
    });
  }

  close() {
    removeEventListener("scroll", this.onScroll);
    removeEventListener("resize", this.onScroll);
    cancelAnimationFrame(this.frame);
  }

  /**
   * @param {readonly T[]} items
   * @param {(item: T) => string} keyOf
   */
  show(items, keyOf) {
    const focused = this.focusedKey(keyOf);
    this.items = items;
    this.draw();
    if (focused !== null) this.refocus(items.findIndex((item) => keyOf(item) === focused));
  }

  draw() {
    this.frame = 0;
    const height = parseFloat(getComputedStyle(this.body).getPropertyValue("--row"));
    const { top } = this.body.getBoundingClientRect();
    const { first, last } = inSight({ top, height, count: this.items.length, sight: innerHeight });
    this.height = height;
    this.first = first;
    const total = `${this.items.length * height}px`;
    if (this.body.style.height !== total) this.body.style.height = total;
    this.match(last - first);
    this.rows.forEach((row, place) => {
      const index = this.first + place;
      const offset = `translateY(${index * height}px)`;
      if (row.element.style.transform !== offset) row.element.style.transform = offset;
      setAttribute(row.element, "aria-rowindex", index + 2);
      row.update(this.items[index]);
    });
  }

  /** @param {number} count */
  match(count) {
    while (this.rows.length > count) this.rows.pop()?.element.remove();
    while (this.rows.length < count) {
      const row = this.make();
      this.rows.push(row);
      this.body.append(row.element);
    }
  }

  /**
   * Select the next or an earlier row with the keyboard.
   * @param {number} step
   */
  move(step) {
    if (!this.items.length) return;
    const isInside = this.body.contains(document.activeElement);
    this.refocus(isInside ? this.active + step : step > 0 ? this.first + this.hidden() : 0);
  }

  hidden() {
    return Math.max(0, Math.ceil(-this.body.getBoundingClientRect().top / this.height) - this.first);
  }

  /** @param {number} index */
  refocus(index) {
    if (!this.items.length || index < 0 || index >= this.items.length) return;
    this.active = index;
    this.reveal(index);
    this.rows[index - this.first]?.link.focus({ preventScroll: true });
  }

  /** @param {number} index */
  reveal(index) {
    const top = this.body.getBoundingClientRect().top + index * this.height;
    const room = { above: 130, below: innerHeight - this.height - 70 };
    if (top < room.above) scrollBy(0, top - room.above);
    else if (top > room.below) scrollBy(0, top - room.below);
    else return;
    this.draw();
  }

  /** @param {(item: T) => string} keyOf */
  focusedKey(keyOf) {
    if (!this.body.contains(document.activeElement)) return null;
    const item = this.items[this.active];
    return item === undefined ? null : keyOf(item);
  }
}
