// A QR code (ISO/IEC 18004): bytes, error correction level M, versions 1 to 6, which hold 106 bytes: a link to a room.

/** By version − 1, for level M: blocks, data bytes of each, and error correction bytes of each. */
const VERSIONS = [
  { blocks: 1, data: 16, check: 10 },
  { blocks: 1, data: 28, check: 16 },
  { blocks: 1, data: 44, check: 26 },
  { blocks: 2, data: 32, check: 18 },
  { blocks: 2, data: 43, check: 24 },
  { blocks: 4, data: 27, check: 16 },
];
// The mode (4 bits) and the length (8 bits) come before the bytes.
const HEAD_BITS = 12;
const BYTE_MODE = 0b0100;
const PADDING = [0xec, 0x11];
const TIMING = 6;
const FINDER_LIKE = [1, 0, 1, 1, 1, 0, 1];

/** @typedef {(row: number, column: number) => boolean} Mask */
/** @type {readonly Mask[]} */
const MASKS = [
  (row, column) => (row + column) % 2 === 0,
  (row) => row % 2 === 0,
  (_, column) => column % 3 === 0,
  (row, column) => (row + column) % 3 === 0,
  (row, column) => (Math.floor(row / 2) + Math.floor(column / 3)) % 2 === 0,
  (row, column) => ((row * column) % 2) + ((row * column) % 3) === 0,
  (row, column) => (((row * column) % 2) + ((row * column) % 3)) % 2 === 0,
  (row, column) => (((row + column) % 2) + ((row * column) % 3)) % 2 === 0,
];

/**
 * The dark modules as rows of 0 and 1, without the quiet zone; null if the text is too long.
 * @param {string} text
 * @returns {number[][] | null}
 */
export function qrCode(text) {
  const bytes = new TextEncoder().encode(text);
  const index = VERSIONS.findIndex(({ blocks, data }) => bytes.length * 8 + HEAD_BITS <= blocks * data * 8);
  if (index < 0) return null;
  const frame = new Frame(index + 1);
  frame.fill(codewords(bytes, VERSIONS[index]));
  const drawn = MASKS.map((mask, number) => frame.masked(mask, number));
  const penalties = drawn.map(penalty);
  return drawn[penalties.indexOf(Math.min(...penalties))];
}

/** The modules of one version: which are fixed, and in which order the others are filled. */
class Frame {
  #size;
  /** @type {number[][]} */
  #modules;
  /** @type {boolean[][]} */
  #isFixed;

  /** @param {number} version */
  constructor(version) {
    this.#size = 17 + 4 * version;
    this.#modules = Array.from({ length: this.#size }, () => Array(this.#size).fill(0));
    this.#isFixed = Array.from({ length: this.#size }, () => Array(this.#size).fill(false));
    const end = this.#size - 1;
    for (let at = 0; at <= end; at++) {
      this.#fix(TIMING, at, (at + 1) % 2);
      this.#fix(at, TIMING, (at + 1) % 2);
    }
    for (const [row, column] of [[3, 3], [3, end - 3], [end - 3, 3]]) this.#square(row, column, 4, [0, 1, 3]);
    if (version > 1) this.#square(end - 6, end - 6, 2, [0, 2]);
    this.#format(0);
  }

  /**
   * Two columns at a time from the right, up and down in turns.
   * @param {number[]} bytes
   */
  fill(bytes) {
    let bit = 0;
    const put = (/** @type {number} */ row, /** @type {number} */ column) => {
      if (this.#isFixed[row][column]) return;
      this.#modules[row][column] = ((bytes[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1;
      bit += 1;
    };
    let isUp = true;
    for (let right = this.#size - 1; right > 0; right -= right === TIMING + 2 ? 3 : 2) {
      for (let step = 0; step < this.#size; step++) {
        const row = isUp ? this.#size - 1 - step : step;
        put(row, right);
        put(row, right - 1);
      }
      isUp = !isUp;
    }
  }

  /**
   * @param {Mask} mask
   * @param {number} number
   */
  masked(mask, number) {
    this.#format(number);
    return this.#modules.map((cells, row) =>
      cells.map((cell, column) => (!this.#isFixed[row][column] && mask(row, column) ? 1 - cell : cell)),
    );
  }

  /**
   * Rings around a module: those at the named distances are dark.
   * @param {number} row
   * @param {number} column
   * @param {number} radius
   * @param {number[]} dark
   */
  #square(row, column, radius, dark) {
    for (let down = -radius; down <= radius; down++) {
      for (let right = -radius; right <= radius; right++) {
        const ring = Math.max(Math.abs(down), Math.abs(right));
        this.#fix(row + down, column + right, dark.includes(ring) ? 1 : 0);
      }
    }
  }

  /**
   * Level M is 00, then the mask: with its BCH check bits, twice.
   * @param {number} mask
   */
  #format(mask) {
    let rest = mask << 10;
    for (let bit = 14; bit >= 10; bit--) if (rest & (1 << bit)) rest ^= 0x537 << (bit - 10);
    const bits = ((mask << 10) | rest) ^ 0x5412;
    const end = this.#size - 1;
    for (let bit = 0; bit < 15; bit++) {
      const value = (bits >> bit) & 1;
      // Counted from the corner, past the timing pattern.
      const near = bit < 6 ? bit : bit + 1;
      if (bit < 8) this.#fix(near, 8, value);
      else this.#fix(8, bit < 9 ? 7 : 14 - bit, value);
      if (bit < 8) this.#fix(8, end - bit, value);
      else this.#fix(end - 14 + bit, 8, value);
    }
    this.#fix(end - 7, 8, 1);
  }

  /**
   * @param {number} row
   * @param {number} column
   * @param {number} value
   */
  #fix(row, column, value) {
    if (row < 0 || column < 0 || row >= this.#size || column >= this.#size) return;
    this.#modules[row][column] = value;
    this.#isFixed[row][column] = true;
  }
}

/**
 * Data, then check bytes, of all blocks in turns.
 * @param {Uint8Array} bytes
 * @param {{blocks: number, data: number, check: number}} version
 */
function codewords(bytes, { blocks, data, check }) {
  const whole = padded(bytes, blocks * data);
  const divisor = generator(check);
  const parts = Array.from({ length: blocks }, (_, block) => whole.slice(block * data, (block + 1) * data));
  const checks = parts.map((part) => remainder(part, divisor));
  const found = [];
  for (let at = 0; at < data; at++) for (const part of parts) found.push(part[at]);
  for (let at = 0; at < check; at++) for (const part of checks) found.push(part[at]);
  return found;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} length
 */
function padded(bytes, length) {
  // Everything is shifted by half a byte: the mode has four bits.
  const halves = [BYTE_MODE, bytes.length >> 4, bytes.length & 15, ...[...bytes].flatMap((byte) => [byte >> 4, byte & 15])];
  halves.push(0);
  const whole = [];
  for (let at = 0; at + 1 < halves.length && whole.length < length; at += 2) whole.push((halves[at] << 4) | halves[at + 1]);
  for (let at = 0; whole.length < length; at++) whole.push(PADDING[at % 2]);
  return whole;
}

/**
 * In GF(256) with the polynomial 0x11d.
 * @param {number} a
 * @param {number} b
 */
function times(a, b) {
  let product = 0;
  for (let bit = 7; bit >= 0; bit--) {
    product = (product << 1) ^ ((product >> 7) * 0x11d);
    product ^= ((b >> bit) & 1) * a;
  }
  return product;
}

/**
 * Reed-Solomon: (x − 1)(x − 2)(x − 4)…, without its first coefficient.
 * @param {number} degree
 */
function generator(degree) {
  const found = Array(degree).fill(0);
  found[degree - 1] = 1;
  let root = 1;
  for (let step = 0; step < degree; step++) {
    for (let at = 0; at < degree; at++) found[at] = times(found[at], root) ^ (found[at + 1] ?? 0);
    root = times(root, 2);
  }
  return found;
}

/**
 * @param {number[]} data
 * @param {number[]} divisor
 */
function remainder(data, divisor) {
  const rest = divisor.map(() => 0);
  for (const byte of data) {
    const factor = byte ^ (rest.shift() ?? 0);
    rest.push(0);
    divisor.forEach((coefficient, at) => (rest[at] ^= times(coefficient, factor)));
  }
  return rest;
}

/**
 * How hard it is to read: long runs, squares, what looks like a finder, too much of one colour.
 * @param {number[][]} modules
 */
function penalty(modules) {
  const columns = modules.map((_, column) => modules.map((cells) => cells[column]));
  const lines = [...modules, ...columns];
  const dark = modules.flat().filter(Boolean).length / modules.length ** 2;
  const uneven = Math.floor(Math.abs(dark * 100 - 50) / 5) * 10;
  return lines.reduce((sum, line) => sum + runs(line) + findersIn(line), 0) + squares(modules) + uneven;
}

/** @param {number[]} line */
function runs(line) {
  let sum = 0;
  let length = 0;
  line.forEach((cell, at) => {
    length = cell === line[at - 1] ? length + 1 : 1;
    if (length === 5) sum += 3;
    else if (length > 5) sum += 1;
  });
  return sum;
}

/** @param {number[]} line */
function findersIn(line) {
  let sum = 0;
  for (let at = 0; at + FINDER_LIKE.length <= line.length; at++) {
    if (!FINDER_LIKE.every((cell, step) => line[at + step] === cell)) continue;
    const isLight = (/** @type {number} */ from) => [0, 1, 2, 3].every((step) => !line[from + step]);
    if (isLight(at - 4) || isLight(at + FINDER_LIKE.length)) sum += 40;
  }
  return sum;
}

/** @param {number[][]} modules */
function squares(modules) {
  let sum = 0;
  for (let row = 1; row < modules.length; row++) {
    for (let column = 1; column < modules.length; column++) {
      const cell = modules[row][column];
      const others = [modules[row - 1][column], modules[row][column - 1], modules[row - 1][column - 1]];
      if (others.every((other) => other === cell)) sum += 3;
    }
  }
  return sum;
}
