// Decodes the speech of a translation, in any of its formats, to samples that a browser can play.

const PCM_RATE = 16_000;
const OPUS_PACKET_SAMPLES = 960; // 20 ms at 48 kHz, Opus's own rate
const CONTAINERS = ["RIFF", "OggS", "fLaC", "ID3"];
// A result is never that long; more is a mistake, and is not played.
const MAX_BYTES = 18_000_000;

/** Throws when the bytes are not what they should be. */
export async function decode(bytes: Uint8Array, format: string, context: BaseAudioContext): Promise<AudioBuffer> {
  if (bytes.length > MAX_BYTES) throw new RangeError("the speech is too long");
  // Containers are detected by their first bytes; the label may be wrong.
  if (CONTAINERS.some((name) => startsWith(bytes, name))) return context.decodeAudioData(bufferOf(bytes));
  const packets = format.startsWith("opus") ? opusPackets(bytes) : null;
  if (packets?.length) return context.decodeAudioData(bufferOf(ogg(packets)));
  if (format.startsWith("pcm") || format.startsWith("opus")) return pcm16(bytes, context);
  return context.decodeAudioData(bufferOf(bytes));
}

/** A copy: decoding takes it away from its owner. */
function bufferOf(bytes: Uint8Array): ArrayBuffer {
  return bytes.slice().buffer as ArrayBuffer;
}

function startsWith(bytes: Uint8Array, text: string): boolean {
  return ascii(text).every((code, i) => bytes[i] === code);
}

function pcm16(bytes: Uint8Array, context: BaseAudioContext): AudioBuffer {
  const count = Math.floor(bytes.length / 2);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const buffer = context.createBuffer(1, Math.max(count, 1), PCM_RATE);
  const samples = buffer.getChannelData(0);
  for (let i = 0; i < count; i++) samples[i] = view.getInt16(2 * i, true) / 32_768;
  return buffer;
}

/** `[u16 little-endian length][packet]`, repeated; null when the walk does not end exactly at the end. */
export function opusPackets(bytes: Uint8Array): Uint8Array[] | null {
  const packets = [];
  let at = 0;
  while (at + 2 <= bytes.length) {
    const size = bytes[at]! | (bytes[at + 1]! << 8);
    if (size === 0 || at + 2 + size > bytes.length) return null;
    packets.push(bytes.subarray(at + 2, at + 2 + size));
    at += 2 + size;
  }
  return at === bytes.length ? packets : null;
}

/** Browsers decode Opus in an Ogg container only: one page for each packet, as RFC 7845 wants it. */
export function ogg(packets: Uint8Array[]): Uint8Array {
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

function page(packet: Uint8Array, number: number, granule: number, flags: number): Uint8Array {
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

/** Ogg's CRC-32: polynomial 0x04c11db7, nothing reflected. */
function checksum(bytes: Uint8Array): number {
  let sum = 0;
  for (const byte of bytes) {
    sum ^= byte << 24;
    for (let bit = 0; bit < 8; bit++) sum = sum & 0x80000000 ? (sum << 1) ^ 0x04c11db7 : sum << 1;
  }
  return sum >>> 0;
}

function ascii(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}
