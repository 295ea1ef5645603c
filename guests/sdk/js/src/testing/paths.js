// Field paths, such as `spec.containers[*].name`, `status.conditions[type=Ready].status` and
// `metadata.annotations['example.com/note']`, and the parts of objects that they select.

import { failure } from "./failure.js";

const STEP = /\.?([^.[\]]+)|\[\*\]|\['([^']+)'\]|\[([^=\]]+)=([^\]]*)\]/y;

/** Parses a path into steps; the whole object has none. */
export function parsePath(path) {
  if (path === ".") return [];
  const steps = [];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < path.length) {
    const found = STEP.exec(path);
    if (found === null) throw failure("Invalid", `\`${path}\` is not a field path`);
    const [text, name, quoted, field, value] = found;
    if (text === "[*]") steps.push({ each: true });
    else if (field !== undefined) steps.push({ field, value });
    else steps.push({ name: name ?? quoted });
  }
  return steps;
}

/** Returns all values at a path. */
export function valuesAt(path, object) {
  let values = [object];
  for (const step of parsePath(path)) values = values.flatMap((value) => below(step, value));
  return values;
}

/** Returns the strings at a path: those there, and those of lists there. */
export function stringsAt(path, object) {
  return valuesAt(path, object).flat().filter((value) => typeof value === "string");
}

function below({ name, each, field, value: wanted }, value) {
  if (value === null || typeof value !== "object") return [];
  if (each) return Object.values(value);
  if (field !== undefined) return Array.isArray(value) ? value.filter((item) => item?.[field] === wanted) : [];
  return !Array.isArray(value) && Object.hasOwn(value, name) ? [value[name]] : [];
}

const IDENTITY = ["name", "namespace", "resourceVersion", "uid"].map((field) => [{ name: "metadata" }, { name: field }]);

/** The field paths that a reader sees. Name, namespace, UID and resource version are always included. */
export class Mask {
  #paths;

  constructor(paths) {
    this.#paths = [...IDENTITY, ...paths.map(parsePath)];
  }

  /** Whether the mask is the whole object. */
  get isWhole() {
    return this.#paths.some((path) => path.length === 0);
  }

  /** Whether all paths of another mask lie within this one's. */
  covers(other) {
    const isPrefix = (path, longer) => path.every((step, at) => at < longer.length && isCovered(step, longer[at]));
    return other.#paths.every((wanted) => this.#paths.some((path) => isPrefix(path, wanted)));
  }

  /** Returns the part of an object that the mask keeps. */
  prune(object) {
    const { apiVersion: _, kind: __, ...kept } = object;
    const pruned = pruneBy(this.#paths, kept);
    delete pruned.metadata?.managedFields;
    return pruned;
  }
}

function isCovered(step, other) {
  if (step.each) return true;
  return step.name === other.name && step.field === other.field && step.value === other.value && !other.each;
}

function pruneBy(paths, value) {
  if (paths.some((path) => path.length === 0)) return structuredClone(value);
  // An element that a filter selects keeps the filter's field.
  const rest = (selects) => paths.filter(([step]) => selects(step)).flatMap(([step, ...path]) => (step.field === undefined ? [path] : [path, [{ name: step.field }]]));
  if (Array.isArray(value)) {
    const pruned = value.map((item) => [rest((step) => step.each || (step.field !== undefined && item?.[step.field] === step.value)), item]);
    return pruned.filter(([own]) => own.length > 0).map(([own, item]) => pruneBy(own, item));
  }
  const fields = Object.entries(value ?? {}).flatMap(([name, item]) => {
    const own = rest((step) => step.each || step.name === name);
    const isReached = own.some((path) => path.length === 0) || (item !== null && typeof item === "object");
    return own.length > 0 && isReached ? [[name, pruneBy(own, item)]] : [];
  });
  return Object.fromEntries(fields);
}
