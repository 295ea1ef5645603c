"""Keeps a ConfigMap in step with an annotated Namespace.

A Namespace annotated `greeter.flyball.dev/greeting: TEXT` gets a ConfigMap `greeting` whose `data.greeting` is TEXT.
Changes of either are corrected, and removing the annotation deletes the ConfigMap."""

import flyball

ANNOTATION = "greeter.flyball.dev/greeting"


def describe():
    return {
        "format": 1,
        "name": "greeter-python",
        "version": "0.1.0",
        "watches": [
            {
                "kind": "v1/Namespace",
                "fields": [f"metadata.annotations['{ANNOTATION}']", "metadata.deletionTimestamp"],
                "map": [{"to": "itself"}],
            },
            {
                "kind": "v1/ConfigMap",
                "fieldSelector": "metadata.name=greeting",
                "fields": ["data.greeting"],
                "map": [{"to": "namespace"}],
            },
        ],
        "queues": [{"name": "greeter-python"}],
        "permissions": [{"kind": "v1/ConfigMap", "verbs": ["get", "create", "update", "delete"]}],
    }


def reconcile(_, namespace):
    found = flyball.get("v1/Namespace", "", namespace)
    if found is None or "deletionTimestamp" in found["metadata"]:
        return
    wanted = found["metadata"].get("annotations", {}).get(ANNOTATION)
    has = flyball.get("v1/ConfigMap", namespace, "greeting")
    if wanted is None and has is not None:
        flyball.delete("v1/ConfigMap", has["metadata"])
    elif wanted is not None and has is None:
        body = {"metadata": {"name": "greeting"}, "data": {"greeting": wanted}}
        flyball.create("v1/ConfigMap", namespace, body)
    elif wanted is not None and has.get("data", {}).get("greeting") != wanted:
        flyball.update("v1/ConfigMap", has["metadata"], {"data": {"greeting": wanted}})


Guest = flyball.guest(describe, reconcile)
