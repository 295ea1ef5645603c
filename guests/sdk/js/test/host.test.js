import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { isConflict, isNotFound, isSkipped } from "@flyball/sdk";
import { Cluster, refusal } from "@flyball/sdk/testing";

const POD = "v1/Pod";
const pod = (name, more = {}) => ({ apiVersion: "v1", kind: "Pod", metadata: { namespace: "a", name, ...more.metadata }, ...more.others });
const names = (objects) => objects.map((object) => object.metadata.name);

test("a list is read in pages, and its conditions all have to hold", () => {
  const owner = { uid: "o", controller: true };
  const cluster = new Cluster([
    ...["1", "2", "3", "4", "5"].map((name) => pod(name, { metadata: { labels: { app: name < "4" ? "web" : "db" } } })),
    pod("owned", { metadata: { labels: { app: "web" }, ownerReferences: [owner] } }),
    { ...pod("elsewhere"), metadata: { namespace: "b", name: "elsewhere", uid: "e" } },
  ]);
  const host = cluster.host();
  assert.deepEqual(names(host.list(POD)), ["1", "2", "3", "4", "5", "owned", "elsewhere"]);
  assert.deepEqual(names(host.list(POD, { namespace: "a", labels: { app: "web" }, orphans: true })), ["1", "2", "3"]);
  assert.deepEqual(names(host.list(POD, { controller: "o" })), ["owned"]);
  assert.deepEqual(names(host.list(POD, { uid: "e" })), ["elsewhere"]);
  assert.equal(host.count(POD, { labels: "app in (db)" }), 2);
  assert.deepEqual(host.rows(POD, ["metadata.name", "metadata.ownerReferences[*].uid", "spec.nodeName"], { owner: "o" }), [["owned", ["o"], null]]);
});

test("a get returns the object or nothing", () => {
  const host = new Cluster([pod("x", { others: { spec: { nodeName: "n", volumes: [] } } })]).host();
  assert.deepEqual(host.get(POD, { namespace: "a", name: "x" }, { fields: ["spec.nodeName"] }).spec, { nodeName: "n" });
  assert.equal(host.get(POD, { namespace: "a", name: "y" }), undefined);
});

test("a create returns the fields that it asks for", () => {
  const cluster = new Cluster();
  const host = cluster.host();
  assert.equal(host.create(POD, pod("x")), undefined);
  const created = host.create(POD, { metadata: { namespace: "a", generateName: "web-" }, spec: {} }, { returns: ["metadata"] });
  assert.match(created.metadata.name, /^web-.{5}$/);
  assert.equal(created.metadata.generation, 1);
  assert.equal(created.spec, undefined);
  assert.deepEqual(cluster.written(), ["create v1/Pod a/x", `create v1/Pod a/${created.metadata.name}`]);
});

test("an update of an older version is a conflict", () => {
  const cluster = new Cluster([pod("x", { others: { spec: { a: 1, b: 2 } } })]);
  const host = cluster.host();
  const old = host.get(POD, { namespace: "a", name: "x" });
  host.update(POD, old, { spec: { b: null } });
  assert.deepEqual(cluster.object(POD, "a/x").spec, { a: 1 });
  assert.equal(cluster.object(POD, "a/x").metadata.generation, 1);
  assert.throws(() => host.update(POD, old, { spec: { b: 3 } }), isConflict);
  assert.throws(() => host.updateStatus(POD, old, { phase: "Running" }), isConflict);
  host.updateStatus(POD, cluster.object(POD, "a/x"), { phase: "Running" });
  assert.deepEqual(cluster.object(POD, "a/x").status, { phase: "Running" });
});

test("a finalizer keeps an object that is deleted until it is removed", () => {
  const cluster = new Cluster([pod("x")]);
  const host = cluster.host();
  host.addFinalizer(POD, cluster.object(POD, "a/x"), "x.io/ours");
  host.delete(POD, cluster.object(POD, "a/x"));
  const deleted = cluster.object(POD, "a/x");
  assert.equal(deleted.metadata.deletionTimestamp, "2026-01-01T00:00:00Z");
  assert.throws(() => host.addFinalizer(POD, deleted, "x.io/other"), /no new finalizers/);
  host.removeFinalizer(POD, deleted, "x.io/ours");
  assert.equal(cluster.object(POD, "a/x"), undefined);
  assert.throws(() => host.delete(POD, { namespace: "a", name: "x" }), isNotFound);
});

test("a delete of an object that was read spares one of another UID", () => {
  const cluster = new Cluster([pod("x")]);
  const read = cluster.object(POD, "a/x");
  cluster.remove(POD, "a/x");
  cluster.put(pod("x"));
  assert.throws(() => cluster.host().delete(POD, read), isConflict);
  assert.equal(cluster.objects(POD).length, 1);
});

test("patches of each type change the object", () => {
  const cluster = new Cluster([pod("x", { others: { spec: { containers: [{ name: "c", image: "1" }], list: [1] } } })]);
  const host = cluster.host();
  const key = { namespace: "a", name: "x" };
  host.patch(POD, key, "strategic", { spec: { containers: [{ name: "d" }, { name: "c", image: "2" }] } });
  host.patch(POD, key, "json", [{ op: "test", path: "/spec/list/0", value: 1 }, { op: "add", path: "/spec/list/-", value: 2 }]);
  host.patch(POD, key, "merge", { metadata: { labels: { "a/b": "c" } } });
  host.patch(POD, key, "json", [{ op: "remove", path: "/metadata/labels/a~1b" }]);
  const { metadata, spec } = cluster.object(POD, "a/x");
  assert.deepEqual(spec, { containers: [{ name: "c", image: "2" }, { name: "d" }], list: [1, 2] });
  assert.deepEqual(metadata.labels, {});
  assert.throws(() => host.patch(POD, key, "json", [{ op: "replace", path: "/spec/none", value: 1 }]), /does not exist/);
});

test("an apply removes what its manager no longer applies, and conflicts with other managers", () => {
  const cluster = new Cluster();
  const host = cluster.host();
  const apply = (fieldManager, data, force) =>
    host.apply("v1/ConfigMap", { metadata: { namespace: "a", name: "m" }, data }, { fieldManager, ...(force && { force }) });
  const data = () => cluster.object("v1/ConfigMap", "a/m").data;
  apply("one", { x: "1", y: "1" });
  apply("two", { y: "1", z: "2" });
  assert.throws(() => apply("two", { y: "2" }), isConflict);
  apply("two", { y: "2" }, true);
  assert.deepEqual(data(), { x: "1", y: "2" });
  apply("one", { x: "3" });
  assert.deepEqual(data(), { x: "3", y: "2" });
  assert.equal(cluster.object("v1/ConfigMap", "a/m").apiVersion, "v1");
});

test("a batch stops after a failed round, and its results are in order", () => {
  const cluster = new Cluster();
  const host = cluster.host();
  cluster.fail("create", POD, refusal(403, "Forbidden"), 2);
  const batch = host.batch().slowStart(1);
  ["1", "2", "3", "4"].forEach((name) => batch.create(POD, pod(name)));
  const results = batch.run();
  assert.deepEqual(results.map(({ ok }) => ok), [true, false, true, false]);
  assert.ok(isSkipped(results[3].error));
  assert.deepEqual(batch.run(), []);
  assert.deepEqual(cluster.written(), ["create v1/Pod a/1", "create v1/Pod a/2: the test refuses this: Forbidden (403 Forbidden)", "create v1/Pod a/3"]);
});

test("an eviction is created on its pod", () => {
  const cluster = new Cluster([pod("x")]);
  cluster.host().createOn(POD, { namespace: "a", name: "x" }, "eviction", { apiVersion: "policy/v1", kind: "Eviction" });
  assert.deepEqual(cluster.written(), ["create v1/Pod/eviction a/x"]);
  assert.deepEqual(cluster.objects(POD), []);
});

test("a collection is deleted by its selectors", () => {
  const cluster = new Cluster([pod("x", { metadata: { labels: { a: "1" } } }), pod("y")]);
  cluster.host().deleteCollection(POD, { namespace: "a", labelSelector: "a=1" });
  assert.deepEqual(names(cluster.objects(POD)), ["y"]);
});

test("live reads ask the API server", () => {
  const cluster = new Cluster(["1", "2", "3"].map((name) => pod(name)));
  cluster.putRaw("/version", { major: "1" });
  const { live } = cluster.host();
  assert.equal(live.get(POD, { namespace: "a", name: "9" }), undefined);
  assert.deepEqual(names([...live.each(POD, { namespace: "a", limit: 2 })]), ["1", "2", "3"]);
  assert.deepEqual(live.raw("/version"), { major: "1" });
  const [found, lost] = live.batch().get(POD, { namespace: "a", name: "1" }).raw("/none").run();
  assert.equal(found.value.metadata.name, "1");
  assert.ok(isNotFound(lost.error));
  assert.deepEqual(cluster.liveReads(), ["get v1/Pod a/9", "list v1/Pod a", "list v1/Pod a", "raw /version", "get v1/Pod a/1", "raw /none"]);
});

test("settings are typed, and an invalid one is a terminal error", () => {
  const cluster = new Cluster();
  const host = cluster.host();
  assert.equal(host.configDuration("period", 60_000), 60_000);
  assert.equal(host.configNumber("most", 7), 7);
  cluster.setConfig("period", "1m30.5s");
  cluster.setConfig("most", "3");
  assert.equal(host.configDuration("period", 0), 90_500);
  assert.equal(host.configNumber("most", 7, { min: 1 }), 3);
  for (const text of ["", "many", "0"]) {
    cluster.setConfig("most", text);
    assert.throws(() => host.configNumber("most", 7, { min: 1 }), { name: "TerminalError", message: `invalid value of setting most: \`${text}\`` });
  }
  for (const text of ["soon", "5", "1m 3s"]) {
    cluster.setConfig("period", text);
    assert.throws(() => host.configDuration("period", 0), { name: "TerminalError" });
  }
});

test("a memo entry is kept until it expires, or its object is deleted", () => {
  const cluster = new Cluster([pod("x")]);
  const { memo } = cluster.host();
  const { uid } = cluster.object(POD, "a/x").metadata;
  const version = memo.put("a", { n: 1 }, { ttlMs: 1000 });
  memo.put("b", 2, { uid });
  assert.deepEqual(memo.entry("a"), { value: { n: 1 }, version });
  assert.throws(() => memo.put("a", 3, { version: 0 }), isConflict);
  cluster.advance(1000);
  cluster.remove(POD, "a/x");
  assert.deepEqual([memo.get("a"), memo.get("b")], [undefined, undefined]);
});

test("events, keys, metrics, logs and tokens are recorded", () => {
  const cluster = new Cluster([pod("x")]);
  cluster.addKey("k");
  const host = cluster.host();
  host.emit(POD, cluster.object(POD, "a/x"), "Normal", "Seen", "saw it", { action: "See" });
  host.queue.add({ namespace: "a", name: "x" }, { afterMs: 10 });
  host.queue.add("y", { queue: "q" });
  host.metrics.add("seen_total");
  host.log.warn("odd", { n: 1, s: "t" });
  assert.deepEqual(host.signer.verifyJwt("k", host.signer.signJwt("k", { sub: "me" })), { sub: "me" });
  const [event] = cluster.recordedEvents();
  assert.deepEqual([event.about.kind, event.about.name, event.reason, event.options.action], [POD, "x", "Seen", "See"]);
  assert.deepEqual(cluster.enqueued(), [{ queue: "", key: "a/x", afterMs: 10 }, { queue: "q", key: "y", afterMs: 0 }]);
  assert.deepEqual(cluster.metrics(), [{ operation: "add", name: "seen_total", labels: [], value: 1 }]);
  assert.deepEqual(cluster.logged(), [{ level: "warn", message: "odd", fields: { n: "1", s: "t" } }]);
  assert.equal(host.now().toISOString(), "2026-01-01T00:00:00.000Z");
  assert.equal(host.random(8).length, 8);
});

const WEBS = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: webs.a.b}
spec:
  group: a.b
  scope: Namespaced
  names: {kind: Web, plural: webs}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                host: {type: string}
                replicas: {type: integer, default: 1}
`;

test("a definition prunes, defaults and checks the objects of its kind", (context) => {
  const folder = mkdtempSync(join(tmpdir(), "flyball-"));
  context.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "crd.yaml");
  writeFileSync(file, WEBS);
  const cluster = new Cluster([], { define: file });
  const web = (spec) => ({ apiVersion: "a.b/v1", kind: "Web", metadata: { namespace: "a", name: "w" }, spec });
  const host = cluster.host();
  host.create("a.b/v1/Web", web({ host: "x", replica: 2 }));
  assert.deepEqual(cluster.object("a.b/v1/Web", "a/w").spec, { host: "x", replicas: 1 });
  const [written] = cluster.writes();
  assert.deepEqual(written.warnings, ['unknown field "spec.replica"']);
  assert.equal(written.line, 'create a.b/v1/Web a/w: warning: unknown field "spec.replica"');
  assert.equal(cluster.logged()[0].level, "warn");
  assert.throws(() => host.create("a.b/v1/Web", web({ host: 1 })), /spec\.host in body must be of type string/);
  assert.throws(() => cluster.put(web({ replica: 2 })), /unknown field "spec\.replica"/);
});
