"""Gives each Greeting a ConfigMap with its text.

A Greeting NAME gets a ConfigMap NAME, which it controls, with the key `text`. Changed data is corrected. The condition `Ready`
tells how it went. A finalizer keeps a Greeting until its ConfigMap is deleted."""

# ANCHOR: kinds
import logging

from flyball import ConflictError, Controller, Key, Mapping, NotFoundError, conditions, describe, finalizers, owners, watch

GREETING = "greeter.flyball.dev/v1/Greeting"
CONFIG_MAP = "v1/ConfigMap"
FINALIZER = "greeter.flyball.dev/cleanup"

log = logging.getLogger(__name__)
# ANCHOR_END: kinds

# ANCHOR: describe
class Greeter(Controller):
    def describe(self):
        return (
            describe("greeter-python", "0.1.0")
            .watch(watch(GREETING, "metadata", "spec.text", "status").enqueue(Mapping.itself()))
            .watch(watch(CONFIG_MAP, "metadata.ownerReferences", "data.text").enqueue(Mapping.controller(GREETING)))
            .permission(GREETING, "get", "update")
            .permission_on(GREETING, "status", "update")
            .permission_on(GREETING, "finalizers", "update")
            .permission(CONFIG_MAP, "get", "create", "update", "delete")
        )
    # ANCHOR_END: describe

    # ANCHOR: reconcile
    def reconcile(self, host, request):
        greeting = host.get(GREETING, *request.key)
        if greeting is None:
            return
        if finalizers.is_deleting(greeting):
            self.clean_up(host, greeting)
            return
        if finalizers.is_missing(greeting, FINALIZER):
            # The update enqueues the key again.
            host.write(finalizers.add(GREETING, greeting, FINALIZER))
            return
        ready = self.keep_config_map(host, greeting)
        self.report(host, greeting, ready)
    # ANCHOR_END: reconcile

    # ANCHOR: steps
    def keep_config_map(self, host, greeting):
        """Creates or corrects the ConfigMap. Returns the condition `Ready`."""
        meta, text = greeting["metadata"], greeting["spec"]["text"]
        found = host.get(CONFIG_MAP, meta["namespace"], meta["name"])
        if found is not None and not owners.is_controlled_by(found, greeting):
            message = f"ConfigMap {meta['name']} exists and this Greeting does not control it"
            return conditions.condition("Ready", False, "NameTaken", message, meta["generation"])
        if found is None or found.get("data", {}).get("text") != text:
            if found is None:
                host.create(CONFIG_MAP, meta["namespace"], config_map(greeting))
            else:
                host.update(CONFIG_MAP, found, {"data": {"text": text}})
            log.info("wrote the ConfigMap %s", Key(meta["namespace"], meta["name"]))
            host.emit(GREETING, greeting, "Normal", "Greeted", f"wrote ConfigMap {meta['name']}")
        return conditions.condition("Ready", True, "Greeted", observed_generation=meta["generation"])
    # ANCHOR_END: steps

    # ANCHOR: report
    def report(self, host, greeting, ready):
        """Writes the status if it has changed."""
        status = greeting.get("status") or {}
        known = status.setdefault("conditions", [])
        was_taken = (conditions.get(known, "Ready") or {}).get("reason") == "NameTaken"
        changed = conditions.set(known, ready, host.now())
        generation = greeting["metadata"]["generation"]
        if changed or status.get("observedGeneration") != generation:
            host.update_status(GREETING, greeting, {**status, "observedGeneration": generation})
        if ready["reason"] == "NameTaken" and not was_taken:
            host.emit(GREETING, greeting, "Warning", "NameTaken", ready["message"])
    # ANCHOR_END: report

    # ANCHOR: clean-up
    def clean_up(self, host, greeting):
        """Deletes the ConfigMap and then removes the finalizer."""
        if not finalizers.has(greeting, FINALIZER):
            return
        meta = greeting["metadata"]
        found = host.get(CONFIG_MAP, meta["namespace"], meta["name"])
        if found is not None and owners.is_controlled_by(found, greeting):
            try:
                host.delete(CONFIG_MAP, found)
            except (ConflictError, NotFoundError):
                pass
        host.write(finalizers.remove(GREETING, greeting, FINALIZER))


def config_map(greeting):
    """Returns the ConfigMap that a Greeting asks for."""
    return {
        "metadata": {
            "name": greeting["metadata"]["name"],
            "ownerReferences": [owners.controller_reference(GREETING, greeting)],
        },
        "data": {"text": greeting["spec"]["text"]},
    }
# ANCHOR_END: clean-up
