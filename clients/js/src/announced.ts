// Utterances that the scheduler has spoken of, and that have no outcome: when there are none, all that was said is settled.

// So long after the last speech no other utterance is announced; or so long, if none ever was. Silence makes none.
const SETTLED_AFTER_MS = 3_000;
const UNTOLD_AFTER_MS = 10_000;
// The scheduler keeps no more outcomes for a client that is away.
const MAX_MISSED = 512;

export class Announced {
  readonly #open = new Set<number>();
  #wasOne = false;
  // Of this session; the one before it had lower numbers.
  #first = 0;
  /** Something was said, and it is not known yet what becomes of it. */
  isUnsettled = false;

  add(index: number): void {
    this.#open.add(index);
    this.#wasOne = true;
  }

  answered(index: number): void {
    this.#open.delete(index);
    this.#wasOne = true;
  }

  /** The session goes on, and some of the indexes below `next` may have been announced meanwhile. */
  resumed(next: number, hasOutcome: (index: number) => boolean): void {
    for (let index = Math.max(this.#first, next - MAX_MISSED); index < next; index++) if (!hasOutcome(index)) this.add(index);
  }

  /** Another session begins. */
  restarted(first: number): void {
    this.#first = first;
    this.#open.clear();
    this.#wasOne = false;
  }

  /** Whether no outcome is still to come, so long after the last speech was sent. */
  areAllIn(idleMs: number): boolean {
    return this.#open.size === 0 && idleMs > (this.#wasOne ? SETTLED_AFTER_MS : UNTOLD_AFTER_MS);
  }
}
