// JSON and text in bytes. The sandbox's engine has no TextEncoder and no TextDecoder. Its functions for Base64 are its
// fastest native conversions between bytes and strings.

const NOT_ASCII = /[^\0-\x7f]/;

const isNode = typeof TextDecoder === "function";
const decoder = isNode ? new TextDecoder() : undefined;
const encoder = isNode ? new TextEncoder() : undefined;

/** Decodes UTF-8. */
export const textOf = isNode ? (bytes) => decoder.decode(bytes) : decodeUtf8;

/** Encodes as UTF-8. */
export const bytesOf = isNode ? (text) => encoder.encode(text) : encodeUtf8;

/** Parses a document; an empty one is `undefined`. */
export function parse(bytes) {
  return bytes.length === 0 ? undefined : JSON.parse(textOf(bytes));
}

/** Returns a value as a document; `undefined` is the empty one. */
export function document(value) {
  return value === undefined ? new Uint8Array() : bytesOf(JSON.stringify(value));
}

function decodeUtf8(bytes) {
  const latin = atob(bytes.toBase64());
  return NOT_ASCII.test(latin) ? decodeURIComponent(escape(latin)) : latin;
}

function encodeUtf8(text) {
  const latin = NOT_ASCII.test(text) ? unescape(encodeURIComponent(text.toWellFormed())) : text;
  return Uint8Array.fromBase64(btoa(latin));
}
