// Decodes the translation's speech from base64 of any supported format to samples that can be played.

const PCM_RATE = 16_000;
const OPUS_PACKET_SAMPLES = 960; // 20 ms at 48 kHz, Opus's own rate
const CONTAINERS = ["RIFF", "OggS", "fLaC", "ID3"];
// A result is never that long; more is a mistake, and is not played.
const MAX_CHARS = 24_000_000;

/**
 * Throws when the bytes are not what they should be.
 * @param {string} base64
 * @param {string} format
 * @param {BaseAudioContext} context
 * @returns {Promise<AudioBuffer>}
 */
export async function decode(base64, format, context) {
  if (base64.length > MAX_CHARS) throw new RangeError("the speech is too long");
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  // Containers are detected by their first bytes; the label may be wrong.
  if (CONTAINERS.some((name) => startsWith(bytes, name))) return context.decodeAudioData(bytes.buffer);
  const packets = format.startsWith("opus") ? opusPackets(bytes) : null;
  if (packets?.length) return context.decodeAudioData(ogg(packets).buffer);
  if (format.startsWith("pcm") || format.startsWith("opus")) return pcm16(bytes, context);
  return context.decodeAudioData(bytes.buffer);
}

/**
 * @param {Uint8Array} bytes
 * @param {string} text
 */
function startsWith(bytes, text) {
  return [...text].every((char, i) => bytes[i] === char.charCodeAt(0));
}

/**
 * @param {Uint8Array} bytes
 * @param {BaseAudioContext} context
 */
function pcm16(bytes, context) {
  const count = Math.floor(bytes.length / 2);
  const view = new DataView(bytes.buffer);
  const buffer = context.createBuffer(1, Math.max(count, 1), PCM_RATE);
  const samples = buffer.getChannelData(0);
  for (let i = 0; i < count; i++) samples[i] = view.getInt16(2 * i, true) / 32_768;
  return buffer;
}

/**
 * `[u16 little-endian length][packet]`, repeated; null when the walk does not end exactly at the end.
 * @param {Uint8Array} bytes
 * @returns {Uint8Array[] | null}
 */
function opusPackets(bytes) {
  const packets = [];
  let at = 0;
  while (at + 2 <= bytes.length) {
    const size = bytes[at] | (bytes[at + 1] << 8);
    if (size === 0 || at + 2 + size > bytes.length) return null;
    packets.push(bytes.subarray(at + 2, at + 2 + size));
    at += 2 + size;
  }
  return at === bytes.length ? packets : null;
}

/**
 * Browsers decode Opus in an Ogg container only: one page for each packet, as RFC 7845 wants it.
 * @param {Uint8Array[]} packets
 */
function ogg(packets) {
  const head = new Uint8Array(19);
  const view = new DataView(head.buffer);
  head.set(ascii("OpusHead"));
  head[8] = head[9] = 1; // version, channels
  view.setUint32(12, PCM_RATE, true);
  const tags = new Uint8Array(16);
  tags.set(ascii("OpusTags"));
  const pages = [page(head, 0, 0, 2), page(tags, 1, 0, 0)];
  packets.forEach((packet, i) => {
    const isLast = i === packets.length - 1;
    pages.push(page(packet, i + 2, (i + 1) * OPUS_PACKET_SAMPLES, isLast ? 4 : 0));
  });
  const whole = new Uint8Array(pages.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const one of pages) {
    whole.set(one, at);
    at += one.length;
  }
  return whole;
}

/**
 * @param {Uint8Array} packet
 * @param {number} number
 * @param {number} granule
 * @param {number} flags
 */
function page(packet, number, granule, flags) {
  const segments = Math.floor(packet.length / 255) + 1;
  const bytes = new Uint8Array(27 + segments + packet.length);
  const view = new DataView(bytes.buffer);
  bytes.set(ascii("OggS"));
  bytes[5] = flags;
  view.setUint32(6, granule % 2 ** 32, true);
  view.setUint32(10, Math.floor(granule / 2 ** 32), true);
  view.setUint32(14, 1, true); // the stream's serial number
  view.setUint32(18, number, true);
  bytes[26] = segments;
  bytes.fill(255, 27, 27 + segments - 1);
  bytes[27 + segments - 1] = packet.length % 255;
  bytes.set(packet, 27 + segments);
  view.setUint32(22, checksum(bytes), true);
  return bytes;
}

/**
 * Ogg's CRC-32: polynomial 0x04c11db7, nothing reflected.
 * @param {Uint8Array} bytes
 */
function checksum(bytes) {
  let sum = 0;
  for (const byte of bytes) {
    sum ^= byte << 24;
    for (let bit = 0; bit < 8; bit++) sum = sum & 0x80000000 ? (sum << 1) ^ 0x04c11db7 : sum << 1;
  }
  return sum >>> 0;
}

/** @param {string} text */
function ascii(text) {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}
