// The API's patch types, as far as tests of controllers need them.

import { refusal } from "./failure.js";

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Whether two JSON values are equal. */
export function equal(a, b) {
  if (a === b) return true;
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, at) => equal(item, b[at]));
  }
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]));
}

/** Applies a JSON merge patch (RFC 7396). */
export function merge(target, patch) {
  if (!isObject(patch)) return structuredClone(patch);
  const merged = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = merge(merged[key], value);
  }
  return merged;
}

/** The keys by which lists are merged; an empty one for lists of plain values. Other lists are replaced. */
const MERGE_KEYS = {
  ownerReferences: "uid",
  conditions: "type",
  containers: "name",
  initContainers: "name",
  volumes: "name",
  env: "name",
  imagePullSecrets: "name",
  volumeMounts: "mountPath",
  finalizers: "",
};

/** Applies a strategic merge patch, with `$patch: delete`, `$patch: replace` and `$deleteFromPrimitiveList`. */
export function strategic(target, patch) {
  if (!isObject(patch)) return structuredClone(patch);
  const merged = isObject(target) && patch.$patch !== "replace" ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    const list = /^\$deleteFromPrimitiveList\/(.+)$/.exec(key)?.[1];
    if (list !== undefined) merged[list] = (merged[list] ?? []).filter((item) => !value.includes(item));
    else if (key.startsWith("$")) continue;
    else if (value === null) delete merged[key];
    else if (Array.isArray(value) && key in MERGE_KEYS) merged[key] = mergeList(merged[key] ?? [], MERGE_KEYS[key], value);
    else merged[key] = strategic(merged[key], value);
  }
  return merged;
}

function mergeList(items, key, patch) {
  let merged = [...items];
  for (const change of patch) {
    const isSame = (item) => (key === "" ? item === change : item[key] === change[key]);
    const at = merged.findIndex(isSame);
    if (change.$patch === "delete") merged = merged.filter((item) => !isSame(item));
    else if (at >= 0) merged[at] = strategic(merged[at], change);
    else merged.push(structuredClone(change));
  }
  return merged;
}

/** Applies a JSON patch (RFC 6902): `add`, `replace`, `remove` and `test`. */
export function jsonPatch(target, operations) {
  const patched = structuredClone(target);
  for (const { op, path, value } of operations) {
    const keys = path.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
    const last = keys.pop();
    const missing = () => refusal(422, "Invalid", `${op} ${path}: the path does not exist`);
    const parent = keys.reduce((at, key) => at?.[key], patched);
    if (last === undefined || parent === null || typeof parent !== "object") throw missing();
    const at = Array.isArray(parent) && last === "-" ? parent.length : last;
    const exists = Object.hasOwn(parent, at);
    if (op === "test") {
      if (!equal(parent[at], value)) throw refusal(422, "Invalid", `the test of ${path} failed`);
    } else if (op === "add" && Array.isArray(parent)) {
      if (!(at <= parent.length)) throw missing();
      parent.splice(Number(at), 0, structuredClone(value));
    } else if (op === "add" || (op === "replace" && exists)) {
      parent[at] = structuredClone(value);
    } else if (op === "remove" && exists) {
      if (Array.isArray(parent)) parent.splice(Number(at), 1);
      else delete parent[at];
    } else {
      throw missing();
    }
  }
  return patched;
}
