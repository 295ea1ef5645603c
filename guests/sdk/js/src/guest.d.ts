import type { Controller } from "./controller.js";

/** The interface `guest` of the world. */
export interface Guest {
  describe(): Uint8Array;
  reconcile(queue: string, key: string, attempt: number): { tag: string; val?: unknown };
  route(deltas: unknown[]): unknown[];
}

/** Exports a controller: `export const guest = exported(myController)` in the entry file. */
export function exported(controller: Controller): Guest;
