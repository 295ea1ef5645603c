import assert from "node:assert/strict";
import { test } from "node:test";

import { Mapping, describe, watch, watchDiscovered } from "@flyball/sdk";

const json = (value) => JSON.parse(JSON.stringify(value));

test("mappings are written in the host's format", () => {
  for (const [mapping, expected] of [
    [Mapping.itself(), { to: "itself" }],
    [Mapping.controller("apps/v1/ReplicaSet"), { to: "controller", kind: "apps/v1/ReplicaSet" }],
    [Mapping.owners("v1/Node"), { to: "owner", kind: "v1/Node" }],
    [Mapping.named("spec.claim"), { to: "named", path: "spec.claim", namespaced: true }],
    [Mapping.namedInCluster("spec.nodeName"), { to: "named", path: "spec.nodeName", namespaced: false }],
    [
      Mapping.selecting("v1/Service", "spec.selector").whose("spec.type", "ClusterIP"),
      { to: "selecting", kind: "v1/Service", path: "spec.selector", whose: [{ path: "spec.type", value: "ClusterIP" }] },
    ],
    [
      Mapping.namedInCluster("spec.nodeName").of("v1/Node").whose("spec.a", "b"),
      { to: "named", path: "spec.nodeName", namespaced: false, kind: "v1/Node", whose: [{ path: "spec.a", value: "b" }] },
    ],
    [
      Mapping.named("spec.claim").of("v1/Secret").missing().whileAny("v1/Pod"),
      { to: "named", path: "spec.claim", namespaced: true, kind: "v1/Secret", missing: true, whileAny: ["v1/Pod"] },
    ],
    [Mapping.allInNamespace("v1/Pod"), { to: "inNamespace", kind: "v1/Pod" }],
    [Mapping.allOf("v1/Node"), { to: "all", kind: "v1/Node" }],
    [Mapping.namespace(), { to: "namespace" }],
    [Mapping.key("all"), { to: "constant", key: "all" }],
    [Mapping.reference(), { to: "reference" }],
    [Mapping.dependents(), { to: "dependents" }],
    [Mapping.ownerReferences("missing"), { to: "ownerReferences", which: "missing" }],
    [Mapping.route(), { to: "route" }],
    [
      Mapping.itself().on("added", "deleted").orphans().deleting().having("status.phase", "Failed").havingAny("spec.nodeName").unless("status.reason").unless("spec.restartPolicy", "Never").queue("slow").after(1500),
      {
        to: "itself", on: ["added", "deleted"], orphans: true, deleting: true, having: [{ path: "status.phase", value: "Failed" }],
        havingAny: ["spec.nodeName"], unless: [{ path: "status.reason" }, { path: "spec.restartPolicy", value: "Never" }], queue: "slow", delayMs: 1500,
      },
    ],
  ]) assert.deepEqual(json(mapping), expected);
  assert.throws(() => Mapping.itself().whose("a", "b"), /applies only to/);
  assert.throws(() => Mapping.itself().of("v1/Pod"), /applies only to/);
  assert.throws(() => Mapping.itself().missing(), /applies only to/);
  assert.throws(() => Mapping.controller("ReplicaSet"), /is not a kind/);
});

test("a description is written in the host's format", () => {
  const description = describe("sizes", "1.0.0")
    .watch(watch("v1/Pod").fields("spec", "status").fields("spec").namespace("a").labelSelector("app").fieldSelector("metadata.name=x")
      .when("generation").whenAt("spec.nodeName").enqueue(Mapping.itself()))
    .watch(watch("v1/Secret").metadataOnly())
    .watch(watchDiscovered({ periodMs: 30_000, verbs: ["delete"], except: ["v1/Event"] }).enqueue(Mapping.reference()))
    .queue("sizes")
    .queue("slow", { maxRetries: 3 })
    .ticker("all", 60_000, { queue: "slow" })
    .index("node", "v1/Pod", "spec.nodeName")
    .permission("v1/Pod", "get", "update", "get")
    .permissionOn("v1/Pod", "status", "update").inNamespaces("a", "b")
    .import("raw", "discovery")
    .config("limit", { default: "5", help: "Most pods." })
    .featureGate("Sizes", true)
    .counter("sizes_total", "Sizes.", "code")
    .histogram("sizes_seconds", [0.1, 1], "Durations.")
    .concurrency(5)
    .memoSchema(2);
  assert.deepEqual(json(description), {
    format: 1,
    name: "sizes",
    version: "1.0.0",
    concurrency: 5,
    watches: [
      {
        kind: "v1/Pod", fields: ["spec", "status"], namespace: "a", labelSelector: "app", fieldSelector: "metadata.name=x",
        changes: ["generation", { path: "spec.nodeName" }], map: [{ to: "itself" }],
      },
      { kind: "v1/Secret", metadataOnly: true },
      { discovered: { periodMs: 30_000, verbs: ["delete"], except: ["v1/Event"] }, map: [{ to: "reference" }] },
    ],
    queues: [{ name: "sizes" }, { name: "slow", maxRetries: 3 }],
    tickers: [{ key: "all", periodMs: 60_000, queue: "slow" }],
    indexes: [{ name: "node", kind: "v1/Pod", path: "spec.nodeName" }],
    permissions: [{ kind: "v1/Pod", verbs: ["get", "update"] }, { kind: "v1/Pod", subresource: "status", verbs: ["update"], namespaces: ["a", "b"] }],
    imports: ["raw", "discovery"],
    config: {
      limit: { default: "5", help: "Most pods." },
      "feature-gates.Sizes": { default: "true", help: "A feature gate of Kubernetes: true or false." },
    },
    metrics: [
      { name: "sizes_total", help: "Sizes.", labels: ["code"], type: "counter" },
      { name: "sizes_seconds", help: "Durations.", labels: [], type: { histogram: [0.1, 1] } },
    ],
    memoSchema: 2,
  });
});
