// Code that the type declarations must accept or refuse. `npm run types` checks it; nothing runs it.

import {
  type Controller, type Condition, type KubernetesObject, Mapping, TerminalError, controllerReference, describe, isConflict, keyOf,
  kindOf, requeueAfter, setCondition, watch,
} from "@flyball/sdk";
import { exported } from "@flyball/sdk/guest";
import { Cluster, refusal } from "@flyball/sdk/testing";

interface Widget extends KubernetesObject {
  spec: { size: number; colour?: string };
  status?: { conditions?: Condition[]; observedGeneration?: number };
}

const WIDGET = kindOf<Widget>("example.com/v1/Widget");

/** A type as other packages have it. */
interface Pod {
  apiVersion?: "v1";
  kind?: "Pod";
  metadata?: { name?: string; uid?: string; labels?: Record<string, string>; creationTimestamp?: string };
  spec?: { nodeName?: string; containers: { name: string }[] };
}

const POD = kindOf<Pod & KubernetesObject>("v1/Pod");

const controller: Controller = {
  describe: (host) =>
    describe("widgets", host.config("version") ?? "1.0.0")
      .watch(watch(WIDGET).fields("metadata", "spec").enqueue(Mapping.itself().on("added", "modified")))
      .queue("widgets", { maxRetries: 3 })
      .permission(WIDGET, "get", "update"),
  reconcile(host, request) {
    const widget = host.get(WIDGET, request.key);
    if (widget === undefined) return;
    const size: number = widget.spec.size;
    // @ts-expect-error: a Widget has no such field.
    widget.spec.weight;
    const conditions = widget.status?.conditions ?? [];
    setCondition(conditions, { type: "Ready", status: "True", reason: "Sized" }, host.now());
    host.updateStatus(WIDGET, widget, { conditions });
    // @ts-expect-error: a Widget's status has no such field.
    host.updateStatus(WIDGET, widget, { phase: "Ready" });
    host.update(WIDGET, widget, { spec: { colour: null } });
    // @ts-expect-error: the size is a number.
    host.update(WIDGET, widget, { spec: { size: "large" } });
    const map = host.create<KubernetesObject & { data: Record<string, string> }>("v1/ConfigMap", {
      metadata: { ...keyOf(widget), ownerReferences: [controllerReference(WIDGET, widget)] },
      data: { size: String(size) },
    }, { returns: ["."] });
    const node: string | undefined = host.get(POD, request.key)?.spec?.nodeName;
    host.create(POD, { metadata: { name: "x", namespace: "a" }, spec: { containers: [{ name: node ?? "c" }] } });
    const untyped = host.get("v1/Pod", request.key);
    host.log.info(untyped?.spec.nodeName, { map: map?.metadata.name });
    for (const { ok } of host.batch().delete("v1/Pod", request.key).slowStart(1).run()) if (!ok) break;
    try {
      for (const pod of host.each<KubernetesObject>("v1/Pod", { labels: { app: "web" }, orphans: true })) host.delete("v1/Pod", pod);
    } catch (error) {
      if (isConflict(error)) throw new TerminalError(error.detail, { cause: error });
    }
    return requeueAfter(1000);
  },
};

// @ts-expect-error: reconcile is synchronous.
const asynchronous: Controller = { describe: controller.describe, reconcile: async () => requeueAfter(1) };

const cluster = new Cluster([{ apiVersion: "v1", kind: "Namespace", metadata: { name: "a" } }]);
cluster.fail("update", WIDGET, refusal(409, "Conflict"));
cluster.edit(WIDGET, "a/b", (widget) => { widget.spec.size += 1; });
const outcome: number | undefined = cluster.reconcile(controller, "a/b").requeueAfterMs;

export const guest = exported(controller);
export { asynchronous, outcome };
