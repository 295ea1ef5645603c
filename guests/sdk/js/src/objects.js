// Kinds, keys, and the parts of an object's metadata that controllers read and write: finalizers and owner references.

/** Returns the parts of a kind such as `apps/v1/Deployment`. */
export function parseKind(kind) {
  const parts = kind.split("/");
  if (parts.length < 2 || parts.length > 3 || parts.some((part) => part === "")) {
    throw new TypeError(`\`${kind}\` is not a kind: write it as \`apps/v1/Deployment\`, or \`v1/Pod\` in the core group`);
  }
  const [group, version, name] = parts.length === 3 ? parts : ["", ...parts];
  return { group, version, kind: name, apiVersion: group === "" ? version : `${group}/${version}` };
}

/** Names a kind whose objects are of type `T`. */
export function kindOf(kind) {
  parseKind(kind);
  return kind;
}

/** Parses `namespace/name`, or `name` of a cluster-scoped object. */
export function parseKey(text) {
  const slash = text.indexOf("/");
  return slash < 0
    ? { namespace: "", name: text }
    : { namespace: text.slice(0, slash), name: text.slice(slash + 1) };
}

/** Returns the text of a key: `namespace/name`, or `name` of a cluster-scoped object. */
export function keyText({ namespace, name }) {
  return namespace ? `${namespace}/${name}` : name;
}

/** Returns the key of an object. */
export function keyOf({ metadata }) {
  return { namespace: metadata.namespace ?? "", name: metadata.name ?? "" };
}

/** Whether an object is being deleted. */
export function isDeleting({ metadata }) {
  return metadata.deletionTimestamp != null;
}

/** Whether an object has this finalizer. */
export function hasFinalizer({ metadata }, finalizer) {
  return metadata.finalizers?.includes(finalizer) ?? false;
}

/** Returns the merge patch that appends a finalizer. */
export function withFinalizer({ metadata }, finalizer) {
  return { metadata: { finalizers: [...(metadata.finalizers ?? []), finalizer] } };
}

/** Returns the merge patch that removes a finalizer and keeps others. */
export function withoutFinalizer({ metadata }, finalizer) {
  return { metadata: { finalizers: (metadata.finalizers ?? []).filter((own) => own !== finalizer) } };
}

/** Returns an owner reference to an object, not as the controller. */
export function ownerReference(kind, { metadata }) {
  const { apiVersion, kind: name } = parseKind(kind);
  return { apiVersion, kind: name, name: metadata.name, uid: metadata.uid };
}

/** Returns an owner reference to an object as the controller. It blocks the owner's deletion. */
export function controllerReference(kind, owner) {
  return { ...ownerReference(kind, owner), controller: true, blockOwnerDeletion: true };
}

/** Returns the owner reference of an object's controller. */
export function controllerOf({ metadata }) {
  return metadata.ownerReferences?.find((owner) => owner.controller === true);
}

/** Whether `owner` controls an object. */
export function isControlledBy(object, owner) {
  return controllerOf(object)?.uid === owner.metadata.uid;
}
