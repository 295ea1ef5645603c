// Writes, which the host runs concurrently.

import { ApiError, lifted } from "./errors.js";
import { document, parse } from "./json.js";
import { keyOf, parseKind } from "./objects.js";

export class Batch {
  #batch;
  #length = 0;

  constructor(writer) {
    this.#batch = new writer.Batch();
  }

  get length() {
    return this.#length;
  }

  create(kind, object, options) {
    const { namespace } = keyOf(object);
    const typed = { ...typeOf(kind), ...object };
    return this.#add((options, returns) => {
      this.#batch.create(target(kind, { namespace, name: "" }), document(typed), options, returns);
    }, options);
  }

  createOn(kind, key, subresource, body, options) {
    return this.#add((options, returns) => {
      this.#batch.create(target(kind, key, subresource), document(body), options, returns);
    }, options);
  }

  update(kind, object, change, { subresource, ...options } = {}) {
    const { resourceVersion } = object.metadata;
    return this.#add((options, returns) => {
      this.#batch.update(target(kind, keyOf(object), subresource), resourceVersion, document(change), options, returns);
    }, options);
  }

  updateStatus(kind, object, status, { metadata, ...options } = {}) {
    const { resourceVersion } = object.metadata;
    return this.#add((options, returns) => {
      this.#batch.updateStatus(target(kind, keyOf(object)), resourceVersion, document(status), document(metadata), options, returns);
    }, options);
  }

  patch(kind, key, patchType, patch, { subresource, ...options } = {}) {
    return this.#add((options, returns) => {
      this.#batch.patch(target(kind, named(key), subresource), patchType, document(patch), options, returns);
    }, options);
  }

  apply(kind, object, options) {
    return this.patch(kind, object, "apply", { ...typeOf(kind), ...object }, options);
  }

  delete(kind, object, { preconditions, ...options } = {}) {
    const uid = object.metadata?.uid;
    const all = uid === undefined ? preconditions : { uid, ...preconditions };
    return this.#add((options, returns) => {
      this.#batch.delete(target(kind, named(object)), options, returns);
    }, all === undefined ? options : { ...options, preconditions: all });
  }

  deleteCollection(kind, { namespace = "", labelSelector = "", fieldSelector = "" }, options) {
    return this.#add((options, returns) => {
      this.#batch.deleteCollection(target(kind, { namespace, name: "" }), labelSelector, fieldSelector, options, returns);
    }, options);
  }

  slowStart(initial) {
    this.#batch.slowStart(initial);
    return this;
  }

  stopOnError() {
    this.#batch.stopOnError();
    return this;
  }

  run() {
    if (this.#length === 0) return [];
    this.#length = 0;
    return this.#batch.run().map(result);
  }

  /** Runs a batch of one write, and returns its value or throws its error. */
  only() {
    const [one] = this.run();
    if (!one.ok) throw one.error;
    return one.value;
  }

  #add(write, { returns = [], ...options } = {}) {
    try {
      write(Object.keys(options).length === 0 ? new Uint8Array() : document(options), returns);
    } catch (error) {
      throw lifted(error);
    }
    this.#length += 1;
    return this;
  }
}

/** Returns a result of the world's batches as a value or an error. */
export function result({ tag, val }) {
  return tag === "ok" ? { ok: true, value: parse(val) } : { ok: false, error: new ApiError(val) };
}

const target = (kind, { namespace, name }, subresource = "") => ({ kind, namespace: namespace ?? "", name, subresource });

/** The fields that name an object's kind. The API server requires them for custom resources. */
function typeOf(text) {
  const { apiVersion, kind } = parseKind(text);
  return { apiVersion, kind };
}

/** The key of an object, or a key itself. */
const named = (object) => (object.metadata === undefined ? object : keyOf(object));
