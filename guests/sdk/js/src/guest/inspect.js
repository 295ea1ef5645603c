// Values as text, for the log.

import { traceOf } from "./trace.js";

const MAX_DEPTH = 6;
const MAX_ITEMS = 100;
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

/** Returns a value as text on one line. */
export function inspect(value, depth = 0, parents = []) {
  switch (typeof value) {
    case "string": return depth === 0 ? value : JSON.stringify(value);
    case "bigint": return `${value}n`;
    case "symbol": return value.toString();
    case "function": return `[function ${value.name || "anonymous"}]`;
    case "object": return value === null ? "null" : inspectObject(value, depth, parents);
    default: return String(value);
  }
}

function inspectObject(object, depth, parents) {
  if (object instanceof Error) return traceOf(object);
  if (object instanceof Date) return Number.isNaN(object.getTime()) ? "Invalid Date" : object.toISOString();
  if (object instanceof RegExp) return String(object);
  if (parents.includes(object)) return "[circular]";
  const name = object.constructor?.name ?? "";
  if (depth >= MAX_DEPTH) return `[${name || "Object"}]`;
  const inner = (value) => inspect(value, depth + 1, [...parents, object]);
  const listed = (items, open, close) => {
    const all = items.length > MAX_ITEMS ? [...items.slice(0, MAX_ITEMS), `… ${items.length - MAX_ITEMS} more`] : items;
    return all.length === 0 ? open + close : `${open} ${all.join(", ")} ${close}`;
  };
  if (Array.isArray(object)) return listed(object.map(inner), "[", "]");
  if (ArrayBuffer.isView(object)) return `${name}(${object.byteLength})`;
  if (object instanceof Map) return `Map ${listed([...object].map(([key, value]) => `${inner(key)} => ${inner(value)}`), "{", "}")}`;
  if (object instanceof Set) return `Set ${listed([...object].map(inner), "{", "}")}`;
  const fields = Object.entries(object).map(([key, value]) => `${IDENTIFIER.test(key) ? key : JSON.stringify(key)}: ${inner(value)}`);
  return (name === "Object" || name === "" ? "" : `${name} `) + listed(fields, "{", "}");
}
