// The world's imports on a cluster: each is a call to the server.

import { document, parse } from "../json.js";

const bytesOf = (base64) => Uint8Array.from(Buffer.from(base64, "base64"));
const base64Of = (bytes) => Buffer.from(bytes).toString("base64");
/** A document of the server as bytes; null is the empty one. */
const documentOf = (value) => document(value ?? undefined);
const pairsOf = (list) => list.map(({ name, value }) => [name, value]);

/** The purposes of a key, in the order of X.509's bits. */
const KEY_USAGES = [
  "digitalSignature", "contentCommitment", "keyEncipherment", "dataEncipherment", "keyAgreement", "certSign", "crlSign",
  "encipherOnly", "decipherOnly",
];

/** Returns the world. `call` takes the name of a function and its arguments. */
export function worldOf(call) {
  return {
    lister: {
      get(kind, namespace, name, fields) {
        const found = call("lister.get", { kind, namespace, name, fields });
        return found === null ? null : document(found);
      },
      list: (query, projection, limit) => pageOf(call("lister.list", { query: queryOf(query), projection: projectionOf(projection), limit })),
      next: (rest, limit) => pageOf(call("lister.next", { rest, limit })),
      count: (query) => call("lister.count", { query: queryOf(query) }),
      deletionObserved: (object) => call("lister.deletion-observed", { object }),
    },
    reader: { Batch: readBatchOf(call) },
    discovery: {
      kinds() {
        const { kinds, failures } = call("discovery.kinds");
        return {
          kinds: kinds.map((kind) => ({ ...kind, subresources: kind.subresources.map(([name, verbs]) => ({ name, verbs })) })),
          failures: failures.map(([groupVersion, message]) => ({ groupVersion, message })),
        };
      },
    },
    writer: { Batch: writeBatchOf(call) },
    events: {
      emit: (about, type, reason, message, options) => call("events.emit", { about, type, reason, message, options: parse(options) }),
    },
    queue: {
      add: (queue, key) => call("queue.add", { queue, key, delayMs: 0 }),
      addAfter: (queue, key, delayMs) => call("queue.add", { queue, key, delayMs }),
      forget: (queue, key) => call("queue.forget", { queue, key }),
      requeues: (queue, key) => call("queue.requeues", { queue, key }),
    },
    clock: { now: () => call("clock.now") },
    random: { bytes: (count) => bytesOf(call("random.bytes", { count })) },
    log: {
      write: (level, message, fields) => call("log.write", { level, message, fields: pairsOf(fields) }),
      enabled: () => true,
    },
    metrics: Object.fromEntries(["add", "set", "observe"].map((operation) =>
      [operation, (name, labels, value) => call("metrics.record", { operation, name, labels, value })])),
    config: { get: (key) => call("config.get", { key }) },
    memo: {
      get(key) {
        const entry = call("memo.get", { key });
        return entry === null ? null : { value: bytesOf(entry.value), version: entry.version };
      },
      put: (key, expected, value, objectUid, ttlMs) => call("memo.put", { key, expected, value: base64Of(value), objectUid, ttlMs }),
      remove: (key) => call("memo.remove", { key }),
    },
    signer: {
      signJwt: (key, claims) => call("signer.sign-jwt", { key, claims: parse(claims) }),
      verifyJwt: (key, token) => document(call("signer.verify-jwt", { key, token })),
      certificateAuthority: (signer) => call("signer.certificate-authority", { signer }).map(bytesOf),
      signCertificate: (signer, template) => bytesOf(call("signer.sign-certificate", { signer, template: templateOf(template) })),
    },
  };
}

const pageOf = ({ items, rest }) => ({ items: document(items), rest });
const queryOf = ({ kind, namespace, conditions }) => ({ kind, namespace, conditions: pairsOf(conditions) });
const projectionOf = ({ tag, val }) => (tag === "all" ? "all" : { [tag]: val });
const resultOf = ({ ok, error }) => (error === undefined ? { tag: "ok", val: documentOf(ok) } : { tag: "err", val: error });

function readBatchOf(call) {
  return class Batch {
    #reads = [];

    get(kind, namespace, name, fields) {
      this.#reads.push({ verb: "get", kind, namespace, name, fields });
    }

    list(kind, namespace, parameters, fields) {
      this.#reads.push({ verb: "list", kind, namespace, parameters: pairsOf(parameters), fields });
    }

    raw(path) {
      this.#reads.push({ verb: "raw", path });
    }

    run() {
      return call("reader.run", { reads: this.#reads.splice(0) }).map(resultOf);
    }
  };
}

function writeBatchOf(call) {
  return class Batch {
    #writes = [];
    #slowStart = 0;
    #stopOnError = false;

    create(target, object, options, returns) {
      this.#add("create", target, options, returns, { body: parse(object) });
    }

    update(target, resourceVersion, change, options, returns) {
      this.#add("update", target, options, returns, { resourceVersion, body: parse(change) });
    }

    updateStatus(target, resourceVersion, status, metadata, options, returns) {
      this.#add("update-status", target, options, returns, { resourceVersion, body: parse(status), metadata: parse(metadata) });
    }

    patch(target, patchType, patch, options, returns) {
      this.#add("patch", target, options, returns, { patchType, body: parse(patch) });
    }

    delete(target, options, returns) {
      this.#add("delete", target, options, returns);
    }

    deleteCollection(target, labelSelector, fieldSelector, options, returns) {
      this.#add("delete-collection", target, options, returns, { labelSelector, fieldSelector });
    }

    slowStart(initial) {
      this.#slowStart = Math.max(initial, 1);
    }

    stopOnError() {
      this.#stopOnError = true;
    }

    run() {
      const writes = this.#writes.splice(0);
      return call("writer.run", { writes, slowStart: this.#slowStart, stopOnError: this.#stopOnError }).map(resultOf);
    }

    #add(verb, target, options, returns, more) {
      this.#writes.push({ verb, ...target, options: parse(options), returns, ...more });
    }
  };
}

function templateOf({ key, subject, keyUsages, ...others }) {
  return {
    ...others,
    key: { [key.tag === "request" ? "request" : "publicKey"]: base64Of(key.val) },
    subject: subject.map((names) => names.map(({ oid, value }) => [oid, value])),
    keyUsages: KEY_USAGES.reduce((bits, usage, at) => bits | (keyUsages[usage] ? 1 << at : 0), 0),
  };
}
