// Parts of JavaScript that QuickJS lacks or takes from the system: the clock, randomness, encodings of text, and
// copies.

import { bytesOf, textOf } from "../json.js";

/** Makes `Date` and `performance` tell the host's time. `now` returns milliseconds since 1970. */
export function installClock(now) {
  const Native = globalThis.Date;
  Native.now = now;
  globalThis.Date = new Proxy(Native, {
    construct: (target, args, called) => Reflect.construct(target, args.length === 0 ? [now()] : args, called),
    apply: () => new Native(now()).toString(),
  });
  Native.prototype.constructor = globalThis.Date;
  let start;
  globalThis.performance = { now: () => now() - (start ??= now()) };
}

/** Makes `Math.random` use the host's random bytes. The engine's own seed would be fixed by the build. */
export function installRandom(host) {
  let bytes = new Uint8Array();
  let used = 0;
  Math.random = () => {
    if (used + 7 > bytes.length) {
      bytes = host.random(7 * 64);
      used = 0;
    }
    let value = bytes[used++] & 0x1f;
    for (let i = 0; i < 6; i++) value = value * 256 + bytes[used++];
    return value / 2 ** 53;
  };
}

/** Adds `TextEncoder` and `TextDecoder`, for UTF-8 alone. */
export function installText() {
  globalThis.TextEncoder ??= class TextEncoder {
    encoding = "utf-8";

    encode(text = "") {
      return bytesOf(String(text));
    }
  };
  globalThis.TextDecoder ??= class TextDecoder {
    encoding = "utf-8";

    constructor(label = "utf-8") {
      if (!/^utf-?8$/i.test(label)) throw new RangeError(`the encoding ${label} is not supported: only utf-8 is`);
    }

    decode(bytes = new Uint8Array()) {
      return textOf(ArrayBuffer.isView(bytes) ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) : new Uint8Array(bytes));
    }
  };
}

/** Adds `structuredClone`, for plain data, dates, maps, sets and typed arrays. */
export function installClone() {
  globalThis.structuredClone ??= (value) => clone(value, new Map());
}

/** `copies` has the copies of the objects that were visited. */
export function clone(value, copies) {
  if (typeof value === "function" || typeof value === "symbol") throw new TypeError(`a ${typeof value} can't be cloned`);
  if (value === null || typeof value !== "object") return value;
  if (copies.has(value)) return copies.get(value);
  const known = (copy) => {
    copies.set(value, copy);
    return copy;
  };
  if (value instanceof Date) return known(new Date(value));
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return known(value.slice());
  if (value instanceof Map) {
    const copy = known(new Map());
    value.forEach((item, key) => copy.set(clone(key, copies), clone(item, copies)));
    return copy;
  }
  if (value instanceof Set) {
    const copy = known(new Set());
    value.forEach((item) => copy.add(clone(item, copies)));
    return copy;
  }
  const copy = known(Array.isArray(value) ? [] : {});
  for (const key of Object.keys(value)) copy[key] = clone(value[key], copies);
  return copy;
}
