// Greets: each Greeting gets a ConfigMap of its name with its text.

// ANCHOR: kinds
import {
  Mapping, controllerReference, describe, hasFinalizer, isConflict, isControlledBy, isDeleting, isNotFound, keyOf, setCondition, watch,
} from "@flyball/sdk";

/** The kind of a custom resource: `greeter.crd.yaml`. */
export const GREETING = "greeter.flyball.dev/v1/Greeting";
export const CONFIG_MAP = "v1/ConfigMap";
export const FINALIZER = "greeter.flyball.dev/cleanup";
// ANCHOR_END: kinds

// ANCHOR: describe
/** @type {import("@flyball/sdk").Controller} */
export const greeter = {
  describe: () =>
    describe("greeter-javascript", "0.1.0")
      .watch(watch(GREETING).fields("metadata", "spec.text", "status").enqueue(Mapping.itself()))
      .watch(watch(CONFIG_MAP).fields("data.text", "metadata.ownerReferences").enqueue(Mapping.controller(GREETING)))
      .queue("greeter-javascript")
      .permission(GREETING, "get", "update")
      .permissionOn(GREETING, "status", "update")
      // An owner reference that blocks the owner's deletion needs it.
      .permissionOn(GREETING, "finalizers", "update")
      .permission(CONFIG_MAP, "get", "create", "update", "delete"),
  // ANCHOR_END: describe

  // ANCHOR: reconcile
  reconcile(host, { key }) {
    const greeting = host.get(GREETING, key);
    if (greeting === undefined) return;
    const map = host.get(CONFIG_MAP, key);
    if (isDeleting(greeting)) {
      cleanUp(host, greeting, map);
    } else if (!hasFinalizer(greeting, FINALIZER)) {
      // The update enqueues the key again.
      host.addFinalizer(GREETING, greeting, FINALIZER);
    } else if (map !== undefined && !isControlledBy(map, greeting)) {
      refuse(host, greeting);
    } else {
      greet(host, greeting, map);
      report(host, greeting, { status: "True", reason: "Greeted" });
    }
  },
};
// ANCHOR_END: reconcile

// ANCHOR: steps
/** Deletes the ConfigMap of a Greeting that is being deleted, and then lets the Greeting go. */
function cleanUp(host, greeting, map) {
  if (!hasFinalizer(greeting, FINALIZER)) return;
  if (map !== undefined && isControlledBy(map, greeting)) {
    try {
      host.delete(CONFIG_MAP, map);
    } catch (error) {
      // It was deleted, or replaced by another one.
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }
  host.removeFinalizer(GREETING, greeting, FINALIZER);
}

/** Creates the ConfigMap, or corrects its data. */
function greet(host, greeting, map) {
  const data = { text: greeting.spec?.text ?? "" };
  if (map === undefined) {
    const ownerReferences = [controllerReference(GREETING, greeting)];
    host.create(CONFIG_MAP, { metadata: { ...keyOf(greeting), ownerReferences }, data });
  } else if (map.data?.text !== data.text) {
    host.update(CONFIG_MAP, map, { data });
  } else {
    return;
  }
  console.log(`wrote ConfigMap ${greeting.metadata.name}`);
  host.emit(GREETING, greeting, "Normal", "Greeted", `wrote ConfigMap ${greeting.metadata.name}`);
}

/** Reports that the ConfigMap's name is taken, with one event. */
function refuse(host, greeting) {
  const message = `ConfigMap ${greeting.metadata.name} exists and this Greeting does not control it`;
  const changed = report(host, greeting, { status: "False", reason: "NameTaken", message });
  if (changed) host.emit(GREETING, greeting, "Warning", "NameTaken", message);
}
// ANCHOR_END: steps

// ANCHOR: report
/**
 * Writes the condition `Ready` and the observed generation. Returns whether the condition differs from the written one.
 */
function report(host, greeting, ready) {
  const observedGeneration = greeting.metadata.generation;
  const conditions = [...(greeting.status?.conditions ?? [])];
  const changed = setCondition(conditions, { type: "Ready", observedGeneration, ...ready }, host.now());
  if (changed || greeting.status?.observedGeneration !== observedGeneration) {
    host.updateStatus(GREETING, greeting, { observedGeneration, conditions });
  }
  return changed;
}
// ANCHOR_END: report
