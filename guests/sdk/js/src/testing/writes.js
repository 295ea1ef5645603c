// The world's interface `writer` on a cluster in memory.

import { document, parse } from "../json.js";
import { matchesSelector } from "../labels.js";
import { keyText } from "../objects.js";
import { matchesFields } from "./access.js";
import { failure } from "./failure.js";
import { Mask } from "./paths.js";
import { idOf } from "./store.js";

const SKIPPED = { status: 424, reason: "Skipped", message: "not started: an earlier write of the batch failed", effect: "none" };

export function writerOf(cluster) {
  return {
    Batch: class Batch {
      #writes = [];
      #initial;
      #stops = false;

      create(target, object, options, returns) {
        this.#add("create", target, parse(object), options, returns, ({ store }, id, body) => {
          if (target.subresource === "eviction") return store.delete(id);
          return target.subresource === "" ? store.create(id.kind, id.namespace, body) : body;
        });
      }

      update(target, resourceVersion, change, options, returns) {
        this.#add("update", target, parse(change), options, returns, ({ store, access }, id, body) => {
          if (target.subresource === "status") throw failure("Invalid", "`update` does not write a status: use `update-status`");
          access.admitUpdate(id.kind, target.subresource, false);
          return store.update(id, target.subresource, resourceVersion, body);
        });
      }

      updateStatus(target, resourceVersion, status, metadata, options, returns) {
        const body = { status: parse(status), ...(metadata.length > 0 && { metadata: parse(metadata) }) };
        this.#add("update", { ...target, subresource: "status" }, body, options, returns, ({ store, access }, id) => {
          access.admitUpdate(id.kind, "", true);
          return store.updateStatus(id, resourceVersion, body.status, body.metadata);
        });
      }

      patch(target, patchType, patch, options, returns) {
        this.#add("patch", target, parse(patch), options, returns, ({ store }, id, body, { fieldManager, force }) =>
          store.patch(id, target.subresource, patchType, body, { manager: fieldManager, force }));
      }

      delete(target, options, returns) {
        this.#add("delete", target, undefined, options, returns, ({ store }, id, _, options) => store.delete(id, options));
      }

      deleteCollection(target, labelSelector, fieldSelector, options, returns) {
        this.#add("deletecollection", target, undefined, options, returns, ({ store }, { kind, namespace }, _, options) => {
          const objects = store.ofKind(kind).filter((object) =>
            (object.metadata.namespace ?? "") === namespace &&
            matchesSelector(labelSelector, object.metadata.labels) &&
            matchesFields(fieldSelector, object));
          objects.forEach((object) => store.delete(idOf(object), options));
          return {};
        });
      }

      slowStart(initial) {
        this.#initial = Math.max(initial, 1);
      }

      stopOnError() {
        this.#stops = true;
      }

      /** All writes of a round are carried out even if one fails, as if they ran concurrently. */
      run() {
        const results = [];
        let size = this.#stops ? 1 : this.#initial ?? Infinity;
        let end = size;
        let hasFailed = false;
        for (const write of this.#writes.splice(0)) {
          if (results.length === end) {
            hasFailed = results.some(({ tag }) => tag === "err");
            if (!this.#stops) size *= 2;
            end += size;
          }
          results.push(hasFailed ? { tag: "err", val: SKIPPED } : write());
        }
        return results;
      }

      #add(verb, { subresource, ...id }, body, options, returns, write) {
        this.#writes.push(() => run(cluster, { verb, ...id, subresource, body, options: parse(options) ?? {} }, returns, write));
      }
    },
  };
}

function run(cluster, written, returns, write) {
  const { verb, kind, namespace, name, subresource, body, options } = written;
  try {
    cluster.admit(verb, kind, subresource);
    const object = write(cluster, { kind, namespace, name }, body, options);
    record(cluster, { ...written, name: name || (object.metadata?.name ?? "") });
    return { tag: "ok", val: returns.length === 0 ? new Uint8Array() : document(new Mask(returns).prune(object)) };
  } catch (error) {
    if (error.payload === undefined) throw error;
    record(cluster, { ...written, name: name || (body?.metadata?.name ?? ""), error: error.payload });
    return { tag: "err", val: error.payload };
  }
}

function record(cluster, written) {
  cluster.writes.push(structuredClone(written));
}

/** Returns a write as a line: `create v1/Pod default/web-1`, `update v1/Pod/status default/web-1: … (409 Conflict)`. */
export function lineOf({ verb, kind, namespace, name, subresource, error }) {
  const target = subresource === "" ? kind : `${kind}/${subresource}`;
  const line = `${verb} ${target} ${name === "" ? namespace : keyText({ namespace, name })}`;
  return error === undefined ? line : `${line}: ${error.message} (${error.status} ${error.reason})`;
}
