import assert from "node:assert/strict";
import { test } from "node:test";

import { getCondition, isConditionTrue, isConflict } from "@flyball/sdk";
import { Cluster, refusal } from "@flyball/sdk/testing";

import { CONFIG_MAP, FINALIZER, GREETING, greeter } from "../src/greeter.ts";

const KEY = "demo/hello";

/** A cluster with a Greeting. */
function cluster(): Cluster {
  return new Cluster([{
    apiVersion: "greeter.flyball.dev/v1",
    kind: "Greeting",
    metadata: { namespace: "demo", name: "hello", uid: "greeting" },
    spec: { text: "good morning" },
  }]);
}

/** Reconciles the Greeting until its own updates don't enqueue it any more. */
function settle(cluster: Cluster) {
  for (let i = 0; i < 2; i++) cluster.reconcile(greeter, KEY);
}

/** A cluster in which the Greeting has been reconciled. */
function greeted(): Cluster {
  const greeted = cluster();
  settle(greeted);
  greeted.written();
  greeted.events();
  return greeted;
}

test("a Greeting gets a ConfigMap, a finalizer, a condition and an event", () => {
  const greeted = cluster();
  settle(greeted);
  assert.deepEqual(greeted.written(), [
    "update greeter.flyball.dev/v1/Greeting demo/hello",
    "create v1/ConfigMap demo/hello",
    "update greeter.flyball.dev/v1/Greeting/status demo/hello",
  ]);
  const map = greeted.object(CONFIG_MAP, KEY);
  assert.deepEqual(map?.data, { text: "good morning" });
  assert.deepEqual(map?.metadata.ownerReferences, [{
    apiVersion: "greeter.flyball.dev/v1", kind: "Greeting", name: "hello", uid: "greeting", controller: true, blockOwnerDeletion: true,
  }]);
  const greeting = greeted.object(GREETING, KEY);
  assert.deepEqual(greeting?.metadata.finalizers, [FINALIZER]);
  assert.equal(greeting?.status?.observedGeneration, 1);
  assert.ok(isConditionTrue(greeting?.status?.conditions, "Ready"));
  assert.deepEqual(greeted.events(), ["Normal Greeted wrote ConfigMap hello"]);
});

test("a second reconcile writes nothing", () => {
  const cluster = greeted();
  cluster.reconcile(greeter, KEY);
  assert.deepEqual(cluster.written(), []);
  assert.deepEqual(cluster.events(), []);
});

test("changed data is corrected", () => {
  const cluster = greeted();
  cluster.edit(CONFIG_MAP, KEY, (map) => { map.data = { text: "go away" }; });
  cluster.reconcile(greeter, KEY);
  assert.deepEqual(cluster.object(CONFIG_MAP, KEY)?.data, { text: "good morning" });
  assert.deepEqual(cluster.written(), ["update v1/ConfigMap demo/hello"]);
  assert.deepEqual(cluster.events(), ["Normal Greeted wrote ConfigMap hello"]);
});

test("a new text is written, and its generation is observed", () => {
  const cluster = greeted();
  cluster.edit(GREETING, KEY, (greeting) => { greeting.spec = { text: "good evening" }; });
  cluster.reconcile(greeter, KEY);
  assert.deepEqual(cluster.object(CONFIG_MAP, KEY)?.data, { text: "good evening" });
  assert.equal(cluster.object(GREETING, KEY)?.status?.observedGeneration, 2);
});

test("a ConfigMap of somebody else is not touched, and that is told once", () => {
  const taken = cluster();
  taken.put({ apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "demo", name: "hello" }, data: { theirs: "1" } });
  settle(taken);
  settle(taken);
  assert.deepEqual(taken.object(CONFIG_MAP, KEY)?.data, { theirs: "1" });
  const ready = getCondition(taken.object(GREETING, KEY)?.status?.conditions, "Ready");
  assert.deepEqual([ready?.status, ready?.reason], ["False", "NameTaken"]);
  assert.deepEqual(taken.events(), ["Warning NameTaken ConfigMap hello exists and this Greeting does not control it"]);
});

test("a deleted Greeting takes its ConfigMap with it", () => {
  const cluster = greeted();
  cluster.host().delete(GREETING, { namespace: "demo", name: "hello" });
  cluster.written();
  cluster.reconcile(greeter, KEY);
  assert.deepEqual(cluster.written(), ["delete v1/ConfigMap demo/hello", "update greeter.flyball.dev/v1/Greeting demo/hello"]);
  assert.equal(cluster.object(GREETING, KEY), undefined);
  assert.equal(cluster.object(CONFIG_MAP, KEY), undefined);
});

test("a deleted Greeting leaves a ConfigMap of somebody else", () => {
  const cluster = greeted();
  cluster.edit(CONFIG_MAP, KEY, (map) => { delete map.metadata.ownerReferences; });
  cluster.host().delete(GREETING, { namespace: "demo", name: "hello" });
  cluster.reconcile(greeter, KEY);
  assert.equal(cluster.object(GREETING, KEY), undefined);
  assert.deepEqual(cluster.object(CONFIG_MAP, KEY)?.data, { text: "good morning" });
});

test("a conflict fails the reconcile, and the next one succeeds", () => {
  const conflicting = cluster();
  conflicting.fail("update", GREETING, refusal(409, "Conflict"));
  assert.throws(() => conflicting.reconcile(greeter, KEY), isConflict);
  assert.equal(conflicting.object(CONFIG_MAP, KEY), undefined);
  settle(conflicting);
  assert.deepEqual(conflicting.object(CONFIG_MAP, KEY)?.data, { text: "good morning" });
});
