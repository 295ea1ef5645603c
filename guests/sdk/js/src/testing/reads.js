// The world's interfaces `lister` and `reader` on a cluster in memory.

import { bytesOf, document } from "../json.js";
import { matchesSelector } from "../labels.js";
import { controllerOf, keyText } from "../objects.js";
import { matchesFields } from "./access.js";
import { failure, refusal } from "./failure.js";
import { Mask, parsePath, stringsAt, valuesAt } from "./paths.js";
import { idOf } from "./store.js";

/** Pages have at most three objects, so that longer lists in tests span several pages. */
const PAGE = 3;

/** Cached reads. */
export function listerOf(cluster) {
  class Cursor {
    constructor(items) {
      this.items = items;
    }
  }
  const page = (items, limit) => {
    const count = limit === 0 ? PAGE : limit;
    const rest = items.length > count ? new Cursor(items.slice(count)) : null;
    return { items: document(items.slice(0, count)), rest };
  };
  return {
    Cursor,
    get(kind, namespace, name, fields) {
      const mask = cluster.access.mask(kind, fields);
      const object = cluster.store.get({ kind, namespace, name });
      return object === undefined || !cluster.access.isInScope(kind, object) ? null : document(mask.prune(object));
    },
    list(query, projection, limit) {
      const items = matching(cluster, query).map((object) => projected(cluster, query.kind, object, projection));
      return page(items, limit);
    },
    next: (rest, limit) => page(rest.items, limit),
    count(query) {
      cluster.failIfDue("count", query.kind);
      return matching(cluster, query).length;
    },
    deletionObserved: ({ kind, namespace, name, uid }) => cluster.deletions.has([kind, namespace, name, uid].join("\0")),
  };
}

function matching(cluster, { kind, namespace, conditions }) {
  const { access, store } = cluster;
  access.watches(kind);
  const kinds = kind === "*" ? store.kinds().filter((own) => access.mayRead(own)) : [kind];
  const objects = kinds.flatMap((own) => store.ofKind(own));
  return objects.filter((object) =>
    access.isInScope(kind === "*" ? idOf(object).kind : kind, object) &&
    (namespace === "" || namespace === object.metadata.namespace) &&
    conditions.every((condition) => holds(access, kind, object, condition)));
}

function holds(access, kind, object, { name, value }) {
  const { uid, labels, ownerReferences = [] } = object.metadata;
  switch (name) {
    case "labels": return matchesSelector(value, labels);
    case "uid": return uid === value;
    case "owner": return ownerReferences.some((owner) => owner.uid === value);
    case "controller": return controllerOf(object)?.uid === value;
    case "orphan": return controllerOf(object) === undefined;
    default:
      if (!name.startsWith("index/")) throw failure("Invalid", `\`${name}\` is not a condition of a query`);
      return stringsAt(access.index(kind, name.slice("index/".length)), object).includes(value);
  }
}

function projected({ access }, kind, object, { tag, val }) {
  const own = kind === "*" ? idOf(object).kind : kind;
  if (tag === "columns") {
    const kept = access.mask(own, val).prune(object);
    return val.map((path) => {
      const values = valuesAt(path, kept);
      return parsePath(path).some((step) => step.each) ? values : values[0] ?? null;
    });
  }
  const pruned = access.mask(own, tag === "fields" ? val : []).prune(object);
  return kind === "*" ? { apiVersion: object.apiVersion, kind: object.kind, ...pruned } : pruned;
}

/** Live reads. */
export function readerOf(cluster) {
  const attempt = (read) => {
    try {
      return { tag: "ok", val: document(read()) };
    } catch (error) {
      if (error.payload === undefined) throw error;
      return { tag: "err", val: error.payload };
    }
  };
  return {
    Batch: class Batch {
      #reads = [];

      get(kind, namespace, name, fields) {
        this.#reads.push(() => liveGet(cluster, kind, namespace, name, fields));
      }

      list(kind, namespace, parameters, fields) {
        this.#reads.push(() => liveList(cluster, kind, namespace, parameters, fields));
      }

      raw(path) {
        this.#reads.push(() => liveRaw(cluster, path));
      }

      run() {
        return this.#reads.splice(0).map(attempt);
      }
    },
  };
}

const narrowed = (object, fields) => (fields.length === 0 ? object : new Mask(fields).prune(object));

function liveGet(cluster, kind, namespace, name, fields) {
  cluster.liveReads.push(`get ${kind} ${keyText({ namespace, name })}`);
  cluster.admit("get", kind, "");
  return narrowed(cluster.store.found({ kind, namespace, name }), fields);
}

function liveList(cluster, kind, namespace, parameters, fields) {
  cluster.liveReads.push(`list ${kind} ${namespace}`);
  cluster.admit("list", kind, "");
  const { labelSelector = "", fieldSelector, limit, continue: token } = Object.fromEntries(parameters.map(({ name, value }) => [name, value]));
  const items = cluster.store.ofKind(kind).filter((object) =>
    (namespace === "" || namespace === object.metadata.namespace) &&
    matchesSelector(labelSelector, object.metadata.labels) &&
    matchesFields(fieldSelector, object));
  // The token is an offset, so it is valid only if nothing changes between two pages.
  const start = Number(token ?? 0);
  const end = Number(limit) > 0 ? start + Number(limit) : items.length;
  const metadata = { resourceVersion: "1", continue: end < items.length ? String(end) : "" };
  return { metadata, items: items.slice(start, end).map((object) => narrowed(object, fields)) };
}

function liveRaw(cluster, path) {
  cluster.liveReads.push(`raw ${path}`);
  cluster.access.admitImport("raw");
  cluster.failIfDue("raw", path);
  if (!cluster.raw.has(path)) throw refusal(404, "NotFound", "the server could not find the requested resource");
  return cluster.raw.get(path);
}

/** Discovery. */
export function discoveryOf(cluster) {
  return {
    kinds() {
      cluster.access.admitImport("discovery");
      cluster.failIfDue("discover", "");
      return structuredClone(cluster.catalogue);
    },
  };
}

/** Signing keys. Tokens and certificates are placeholders. */
export function signerOf(cluster) {
  const admit = (names, name, what) => {
    cluster.access.admitImport("signer");
    if (!names.has(name)) throw failure("NotFound", `the host has no ${what} \`${name}\``);
  };
  return {
    signJwt(key, claims) {
      admit(cluster.keys, key, "key named");
      const token = `toy.${key}.${cluster.tokens.length}`;
      cluster.tokens.push({ key, token, claims });
      return token;
    },
    verifyJwt(key, token) {
      admit(cluster.keys, key, "key named");
      const known = cluster.tokens.find((own) => own.key === key && own.token === token);
      if (known === undefined) throw failure("Unauthorized", `the token was not signed by the key \`${key}\``);
      return known.claims;
    },
    certificateAuthority(signer) {
      admit(cluster.authorities, signer, "authority for the signer");
      return [bytesOf(`the authority of ${signer}`)];
    },
    signCertificate(signer, template) {
      admit(cluster.authorities, signer, "authority for the signer");
      cluster.certificates.push({ signer, template });
      return bytesOf(`certificate ${cluster.certificates.length - 1}`);
    },
  };
}
