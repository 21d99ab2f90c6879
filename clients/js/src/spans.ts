// What was said between two finals, and which utterances the scheduler made of it. It is needed if a session is lost:
// what has no outcome is said again.

export interface Span {
  start: number;
  /** Null while it is being said. */
  end: number | null;
  /** Utterances of it that have no outcome yet. */
  open: Set<number>;
  /** No further utterance comes of it. */
  isOver: boolean;
}

export class Spans {
  #spans: Span[] = [];
  // The one of which the last chunk was sent.
  #current: Span | undefined;

  get areAnswered(): boolean {
    return this.#spans.length === 0;
  }

  get unanswered(): readonly Span[] {
    return this.#spans;
  }

  /** Nothing is being said. */
  get areOver(): boolean {
    return this.#spans.every(({ end }) => end !== null);
  }

  add(seq: number, isFinal: boolean): void {
    let span = this.#spans.at(-1);
    if (!span || span.end !== null) {
      span = { start: seq, end: null, open: new Set(), isOver: false };
      this.#spans.push(span);
    }
    if (isFinal) span.end = seq;
  }

  sent(seq: number): void {
    this.#current = this.#spans.find(({ start, end }) => start <= seq && (end === null || seq <= end));
  }

  /** The scheduler has ended an utterance. `isFinal`: after the final of what was sent last. */
  ended(index: number, isFinal: boolean): void {
    if (!this.#current) return;
    // It was taken for silence too early.
    if (!this.#spans.includes(this.#current)) this.#spans.push(this.#current);
    this.#current.open.add(index);
    if (isFinal) this.#current.isOver = true;
  }

  /** Nothing was made of what was sent since the last utterance ended: it was silence. */
  silent(): void {
    if (!this.#current) return;
    this.#current.isOver = true;
    this.#forget();
  }

  answered(index: number): void {
    const span = this.#spans.find(({ open }) => open.has(index));
    if (span) span.open.delete(index);
    // Its end was not announced, or the announcement was lost with a connection: the oldest one has its answer.
    else if (this.#spans[0] && this.#spans[0].end !== null && this.#spans[0].open.size === 0) this.#spans[0].isOver = true;
    this.#forget();
  }

  /** Begins again, with nothing said. */
  clear(): Span[] {
    this.#current = undefined;
    return this.#spans.splice(0);
  }

  #forget(): void {
    this.#spans = this.#spans.filter(({ isOver, open }) => !isOver || open.size > 0);
  }
}
