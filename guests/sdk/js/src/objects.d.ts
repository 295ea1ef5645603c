/** A kind, `group/version/Kind` or, in the core group, `version/Kind`. `T` is the type of its objects. */
export type Kind<T = KubernetesObject> = string & { readonly __object?: T };

/** Names an object. The namespace of a cluster-scoped object is empty. */
export interface Key {
  namespace: string;
  name: string;
}

/** The metadata of an object. A plugin reads only the fields that its watches declare. */
export interface ObjectMeta {
  name: string;
  generateName?: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  finalizers?: string[];
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

/** An object as it was read. */
export interface KubernetesObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

/** An object of unknown type, with typed metadata. */
export interface AnyObject extends KubernetesObject {
  [field: string]: any;
}

/** An object to write: the host sets `apiVersion` and `kind`, and the API server the rest of the metadata. */
export type NewObject<T> = Omit<T, "metadata" | "status"> & { metadata: Partial<ObjectMeta> };

/** Part of an object, as a JSON merge patch: `null` removes a field. */
export type MergePatch<T> = T extends readonly unknown[] ? T
  : T extends object ? { [field in keyof T]?: MergePatch<T[field]> | null }
  : T;

export interface KindParts {
  /** Empty for the core group. */
  group: string;
  version: string;
  kind: string;
  /** The group and the version, as in `apps/v1`. */
  apiVersion: string;
}

/**
 * Returns the parts of a kind such as `apps/v1/Deployment`.
 *
 * @throws TypeError if the text has another form.
 */
export function parseKind(kind: string): KindParts;
/**
 * Names a kind whose objects are of type `T`: `const POD = kindOf<Pod>("v1/Pod")`.
 *
 * @throws TypeError if the text has another form.
 */
export function kindOf<T extends { metadata: ObjectMeta }>(kind: string): Kind<T>;
/** Parses `namespace/name`, or `name` of a cluster-scoped object. */
export function parseKey(text: string): Key;
/** Returns the text of a key: `namespace/name`, or `name` of a cluster-scoped object. */
export function keyText(key: Key): string;
/** Returns the key of an object. */
export function keyOf(object: { metadata: Partial<ObjectMeta> }): Key;
/** Whether an object is being deleted. */
export function isDeleting(object: KubernetesObject): boolean;
/** Whether an object has this finalizer. */
export function hasFinalizer(object: KubernetesObject, finalizer: string): boolean;
/** Returns the merge patch that appends a finalizer. */
export function withFinalizer(object: KubernetesObject, finalizer: string): { metadata: { finalizers: string[] } };
/** Returns the merge patch that removes a finalizer and keeps others. */
export function withoutFinalizer(object: KubernetesObject, finalizer: string): { metadata: { finalizers: string[] } };
/** Returns an owner reference to an object of this kind, not as the controller. */
export function ownerReference(kind: string, owner: KubernetesObject): OwnerReference;
/** Returns an owner reference to an object of this kind as the controller. It blocks the owner's deletion. */
export function controllerReference(kind: string, owner: KubernetesObject): OwnerReference;
/** Returns the owner reference of an object's controller. */
export function controllerOf(object: { metadata: Partial<ObjectMeta> }): OwnerReference | undefined;
/** Whether `owner` controls an object. */
export function isControlledBy(object: { metadata: Partial<ObjectMeta> }, owner: KubernetesObject): boolean;
