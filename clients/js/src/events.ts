// How news reach an application: typed events, and a bounded queue to iterate over.

export class Emitter<Events extends object> {
  readonly #listeners = new Map<keyof Events, Set<(event: never) => void>>();

  /** Returns a function that removes the listener. */
  on<Name extends keyof Events>(name: Name, listener: (event: Events[Name]) => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  has(name: keyof Events): boolean {
    return Boolean(this.#listeners.get(name)?.size);
  }

  emit<Name extends keyof Events>(name: Name, event: Events[Name]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        (listener as (event: Events[Name]) => void)(event);
      } catch (error) {
        // A listener that fails must not break the session; the error is reported as any uncaught one.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}

/** Wakes those who wait for a change. */
export class Signal {
  #wake: () => void = () => {};
  #change = new Promise<void>((wake) => (this.#wake = wake));

  tell(): void {
    this.#wake();
    this.#change = new Promise((wake) => (this.#wake = wake));
  }

  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await this.#change;
  }
}

/** Unread values. It ends once, with an error or without, after everything in it was read. */
export class Inbox<Value> implements AsyncIterableIterator<Value> {
  readonly #unread: Value[] = [];
  readonly #max: number;
  readonly #news = new Signal();
  #ending: { error: Error | null } | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  get isFull(): boolean {
    return this.#unread.length >= this.#max;
  }

  add(value: Value): void {
    if (this.#ending) return;
    this.#unread.push(value);
    this.#news.tell();
  }

  /** For what is full, and must not lose the latest. */
  replaceOldest(value: Value): void {
    this.#unread.shift();
    this.add(value);
  }

  end(error: Error | null): void {
    this.#ending ??= { error };
    this.#news.tell();
  }

  /** Until half of it was read, or it has ended. */
  hasRoom(): Promise<void> {
    return this.#news.until(() => this.#unread.length <= this.#max / 2 || Boolean(this.#ending));
  }

  async next(): Promise<IteratorResult<Value>> {
    await this.#news.until(() => this.#unread.length > 0 || Boolean(this.#ending));
    if (this.#unread.length === 0) {
      if (this.#ending?.error) throw this.#ending.error;
      return { done: true, value: undefined };
    }
    const value = this.#unread.shift() as Value;
    this.#news.tell();
    return { done: false, value };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
