// The objects of the API server in memory.

import { parseKind } from "../objects.js";
import { apply } from "./apply.js";
import { refusal } from "./failure.js";
import { equal, jsonPatch, merge, strategic } from "./patch.js";

/** The fields of metadata that only the server changes. */
const SERVER_FIELDS = ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation"];

const timeText = (date) => `${date.toISOString().slice(0, 19)}Z`;

export class Store {
  #objects = new Map();
  /** Of each object, what each field manager has applied. */
  #managers = new Map();
  #version = 0;
  #uid = 0;

  constructor(now) {
    this.now = now;
    /** Called with the UID of each deleted object. */
    this.onDelete = () => {};
  }

  get({ kind, namespace, name }) {
    return this.#objects.get(idText({ kind, namespace, name }));
  }

  /** The objects of a kind, in order of namespace and name. */
  ofKind(kind) {
    const own = [...this.#objects].filter(([id]) => id.startsWith(`${kind}\0`));
    return own.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object);
  }

  /** The kinds that have objects. */
  kinds() {
    return [...new Set([...this.#objects.keys()].map((id) => id.split("\0")[0]))].sort();
  }

  /** Stores an object verbatim, and fills in absent fields that the server sets. */
  put(object) {
    const own = structuredClone(object);
    this.#fill(own);
    this.#objects.set(idText(idOf(own)), own);
  }

  /** Changes an object as another client. */
  edit(id, change) {
    const object = structuredClone(this.found(id));
    const { generation = 0 } = object.metadata;
    const spec = JSON.stringify(object.spec);
    change(object);
    if (JSON.stringify(object.spec) !== spec) object.metadata.generation = generation + 1;
    this.#touch(object);
    this.#objects.set(idText(id), object);
  }

  remove(id) {
    const object = this.get(id);
    if (object === undefined) return;
    this.#objects.delete(idText(id));
    this.#managers.delete(idText(id));
    this.onDelete(object.metadata.uid);
  }

  found(id) {
    const object = this.get(id);
    if (object === undefined) throw refusal(404, "NotFound", `${id.kind} "${id.name}" not found`);
    return object;
  }

  create(kind, namespace, body) {
    const { apiVersion, kind: kindName } = parseKind(kind);
    if (typeof body?.metadata !== "object") throw refusal(422, "Invalid", "the object has no metadata");
    const object = { ...structuredClone(body), apiVersion, kind: kindName };
    if (namespace !== "") object.metadata.namespace = namespace;
    if (!object.metadata.name) {
      if (!object.metadata.generateName) throw refusal(422, "Invalid", "name or generateName is required");
      object.metadata.name = object.metadata.generateName + (this.#version + 1).toString(36).padStart(5, "x");
    }
    const id = idOf(object);
    if (this.#isTerminating(namespace)) {
      throw refusal(403, "NamespaceTerminating", `${kind} "${id.name}" is forbidden: the namespace ${namespace} is being terminated`);
    }
    if (this.get(id) !== undefined) throw refusal(409, "AlreadyExists", `${kind} "${id.name}" already exists`);
    for (const field of SERVER_FIELDS.slice(2)) delete object.metadata[field];
    if (object.spec !== undefined) object.metadata.generation = 1;
    this.#fill(object);
    this.#objects.set(idText(id), object);
    return object;
  }

  /** Applies a merge patch to the object with this version. */
  update(id, subresource, version, change) {
    return this.#replace(id, subresource, merge(this.#ofVersion(id, version), change));
  }

  /** Replaces the status of the object with this version, and merges its metadata. */
  updateStatus(id, version, status, metadata) {
    const { status: _, ...object } = this.#ofVersion(id, version);
    return this.#replace(id, "status", { ...merge(object, { metadata: metadata ?? {} }), status });
  }

  patch(id, subresource, patchType, patch, writer) {
    if (patchType === "apply") return this.#apply(id, subresource, patch, writer);
    const functions = { json: jsonPatch, merge, strategic };
    if (!Object.hasOwn(functions, patchType)) throw refusal(415, "UnsupportedMediaType", `\`${patchType}\` is not a patch type`);
    const object = this.found(id);
    checkPreconditions(id, object, patch.metadata);
    return this.#replace(id, subresource, functions[patchType](object, patch));
  }

  delete(id, { preconditions, propagationPolicy, gracePeriodSeconds } = {}) {
    const object = structuredClone(this.found(id));
    checkPreconditions(id, object, preconditions);
    const finalizer = { Foreground: "foregroundDeletion", Orphan: "orphan" }[propagationPolicy];
    if (finalizer !== undefined) object.metadata.finalizers = [...new Set([...(object.metadata.finalizers ?? []), finalizer])];
    const isOnNode = id.kind === "v1/Pod" && Boolean(object.spec?.nodeName);
    const grace = isOnNode ? gracePeriodSeconds ?? object.spec.terminationGracePeriodSeconds ?? 30 : 0;
    const isHeld = (object.metadata.finalizers ?? []).length > 0 || (id.kind === "v1/Namespace" && object.spec?.finalizers?.length > 0);
    if (grace === 0 && !isHeld) {
      this.remove(id);
      return object;
    }
    if (object.metadata.deletionTimestamp === undefined) {
      object.metadata.deletionTimestamp = timeText(new Date(this.now.getTime() + grace * 1000));
      object.metadata.deletionGracePeriodSeconds = grace;
      if (id.kind === "v1/Namespace") object.status = { ...object.status, phase: "Terminating" };
      this.#touch(object);
    }
    this.#objects.set(idText(id), object);
    return object;
  }

  #apply(id, subresource, applied, { manager, force }) {
    if (manager === undefined) throw refusal(422, "Invalid", "fieldManager: is required for apply patch");
    // An apply to the object ignores the status, and one to `status` ignores the rest.
    const { status, ...others } = applied;
    const fields = subresource === "status" ? { metadata: {}, status } : others;
    if (this.get(id) === undefined) this.create(id.kind, id.namespace, { ...fields, metadata: { ...fields.metadata, name: id.name } });
    const object = this.found(id);
    const managers = this.#managers.get(idText(id)) ?? new Map();
    const merged = apply(object, fields, { manager, force }, managers);
    this.#managers.set(idText(id), managers);
    return this.#replace(id, subresource, merged);
  }

  #ofVersion(id, version) {
    const object = this.found(id);
    if (object.metadata.resourceVersion !== version) throw conflict(id, "the object has been modified; please apply your changes to the latest version");
    return object;
  }

  /** Stores a new version. Removing the last finalizer of an object that is being deleted deletes it. */
  #replace(id, subresource, written) {
    const old = this.found(id);
    let object = structuredClone(written);
    if (subresource === "status") object = { ...structuredClone(old), metadata: withAccepted(id.kind, old.metadata, object.metadata), status: object.status };
    else if (old.status === undefined) delete object.status;
    else object.status = structuredClone(old.status);
    for (const field of SERVER_FIELDS) {
      if (old.metadata[field] === undefined) delete object.metadata[field];
      else object.metadata[field] = old.metadata[field];
    }
    const isDeleted = object.metadata.deletionTimestamp !== undefined;
    const added = (object.metadata.finalizers ?? []).filter((own) => !old.metadata.finalizers?.includes(own));
    if (isDeleted && added.length > 0) {
      throw refusal(422, "Invalid", `${id.kind} "${id.name}" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted`);
    }
    if (equal(object, old)) return old;
    if (!equal(object.spec, old.spec)) object.metadata.generation = (old.metadata.generation ?? 0) + 1;
    this.#touch(object);
    const isHeld = (object.metadata.finalizers ?? []).length > 0 || object.metadata.deletionGracePeriodSeconds > 0;
    if (isDeleted && !isHeld) this.remove(id);
    else this.#objects.set(idText(id), object);
    return object;
  }

  #isTerminating(namespace) {
    const object = this.get({ kind: "v1/Namespace", namespace: "", name: namespace });
    return object?.metadata.deletionTimestamp !== undefined || object?.status?.phase === "Terminating";
  }

  #fill(object) {
    object.metadata.uid ??= `uid-${++this.#uid}`;
    if (object.metadata.resourceVersion === undefined) this.#touch(object);
    object.metadata.creationTimestamp ??= timeText(this.now);
  }

  #touch(object) {
    object.metadata.resourceVersion = String(++this.#version);
  }
}

/** Returns the kind, namespace and name of an object. */
export function idOf({ apiVersion, kind, metadata }) {
  if (!apiVersion || !kind || !metadata?.name) throw new TypeError("an object has `apiVersion`, `kind` and a name");
  return { kind: `${apiVersion}/${kind}`, namespace: metadata.namespace ?? "", name: metadata.name };
}

/** The metadata after a status write: the built-in kinds accept most changes, custom resources none. */
function withAccepted(kind, old, written) {
  const { group } = parseKind(kind);
  if (group.includes(".") && !group.endsWith(".k8s.io")) return { ...old };
  const { labels, annotations, finalizers, ownerReferences } = written;
  return JSON.parse(JSON.stringify({ ...old, labels, annotations, finalizers, ownerReferences }));
}

const idText = ({ kind, namespace, name }) => `${kind}\0${namespace ?? ""}\0${name}`;

function checkPreconditions(id, object, wanted) {
  for (const field of ["uid", "resourceVersion"]) {
    const value = wanted?.[field];
    if (value !== undefined && value !== object.metadata[field]) throw conflict(id, `the precondition on metadata.${field} failed`);
  }
}

const conflict = (id, message) => refusal(409, "Conflict", `operation cannot be fulfilled on ${id.kind} "${id.name}": ${message}`);
