// The little of Node.js that these tests use; its own types would change those of the browser (setTimeout).

declare module "node:test" {
  type Body = () => void | Promise<void>;
  export function test(name: string, body: Body): void;
  export function beforeEach(body: Body): void;
  export function afterEach(body: Body): void;
  export const mock: {
    timers: {
      enable(options: { apis: ("setTimeout" | "setInterval" | "Date")[]; now?: number }): void;
      tick(ms: number): void;
      reset(): void;
    };
    method(object: object, name: string, replacement: (...given: any[]) => unknown): void;
    restoreAll(): void;
  };
}

declare module "node:assert/strict" {
  interface Assert {
    (value: unknown, message?: string): asserts value;
    equal(actual: unknown, expected: unknown, message?: string): void;
    notEqual(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    match(actual: string, expected: RegExp): void;
    throws(body: () => unknown, expected?: RegExp): void;
  }
  const assert: Assert;
  export default assert;
}

declare module "node:fs" {
  export function readFileSync(path: URL, encoding: "utf-8"): string;
}
