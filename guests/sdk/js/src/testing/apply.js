// Server-side apply: what each field manager has applied. Lists are merged by the keys of strategic merge patches.
// Unlike the server's, it knows only the owners of applied fields: other writes neither own fields nor lose them.

import { refusal } from "./failure.js";
import { equal, strategic } from "./patch.js";

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Returns the object that results from an apply, and records what the manager has applied. */
export function apply(live, applied, { manager, force }, managers) {
  const { apiVersion: _, kind: __, ...fields } = applied;
  const conflicts = [];
  for (const [other, theirs] of managers) {
    if (other === manager) continue;
    for (const path of differing(theirs, fields)) {
      if (force) remove(theirs, path);
      else conflicts.push(`${path.join(".")} (${other})`);
    }
  }
  if (conflicts.length > 0) throw refusal(409, "Conflict", `conflict with other field managers: ${conflicts.join(", ")}`);
  let merged = structuredClone(live);
  for (const path of missing(managers.get(manager) ?? {}, fields)) {
    const isShared = [...managers].some(([other, theirs]) => other !== manager && has(theirs, path));
    if (!isShared) remove(merged, path);
  }
  merged = strategic(merged, fields);
  managers.set(manager, structuredClone(fields));
  return merged;
}

/** The paths of the values that both have and that differ. */
function differing(a, b, path = []) {
  return Object.keys(a).filter((key) => Object.hasOwn(b, key)).flatMap((key) => {
    if (isObject(a[key]) && isObject(b[key])) return differing(a[key], b[key], [...path, key]);
    return equal(a[key], b[key]) ? [] : [[...path, key]];
  });
}

/** The paths of the values of `a` that `b` lacks. */
function missing(a, b, path = []) {
  return Object.keys(a).flatMap((key) => {
    if (!Object.hasOwn(b, key)) return [[...path, key]];
    return isObject(a[key]) && isObject(b[key]) ? missing(a[key], b[key], [...path, key]) : [];
  });
}

const parentOf = (object, path) => path.slice(0, -1).reduce((at, key) => at?.[key], object);

function has(object, path) {
  return Object.hasOwn(parentOf(object, path) ?? {}, path.at(-1));
}

function remove(object, path) {
  delete parentOf(object, path)?.[path.at(-1)];
}
