// Live reads: each asks the API server.

import { isNotFound } from "./errors.js";
import { result } from "./batch.js";
import { selectorText } from "./labels.js";

/** Objects per page of `each`; the same as client-go's. */
const PAGE = 500;

export class Live {
  #reader;

  constructor(reader) {
    this.#reader = reader;
  }

  get(kind, key, options) {
    const [one] = this.batch().get(kind, key, options).run();
    if (one.ok) return one.value;
    if (isNotFound(one.error)) return undefined;
    throw one.error;
  }

  list(kind, query) {
    return only(this.batch().list(kind, query));
  }

  *each(kind, query = {}) {
    let token;
    do {
      const page = this.list(kind, { limit: PAGE, ...query, continue: token });
      yield* page.items;
      token = page.metadata?.continue;
    } while (token);
  }

  raw(path) {
    return only(this.batch().raw(path));
  }

  batch() {
    return new ReadBatch(this.#reader);
  }
}

export class ReadBatch {
  #batch;
  #length = 0;

  constructor(reader) {
    this.#batch = new reader.Batch();
  }

  get(kind, { namespace, name }, { fields = [] } = {}) {
    this.#batch.get(kind, namespace ?? "", name, fields);
    return this.#added();
  }

  list(kind, { namespace = "", fields = [], labelSelector, ...others } = {}) {
    const all = { ...others, labelSelector: labelSelector === undefined ? undefined : selectorText(labelSelector) };
    const parameters = Object.entries(all).filter(([, value]) => value !== undefined && value !== "");
    this.#batch.list(kind, namespace, parameters.map(([name, value]) => ({ name, value: String(value) })), fields);
    return this.#added();
  }

  raw(path) {
    this.#batch.raw(path);
    return this.#added();
  }

  run() {
    if (this.#length === 0) return [];
    this.#length = 0;
    return this.#batch.run().map(result);
  }

  #added() {
    this.#length += 1;
    return this;
  }
}

function only(batch) {
  const [one] = batch.run();
  if (!one.ok) throw one.error;
  return one.value;
}
