// A controller under its own description, and as the world's exports.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Mapping, ReconcileError, TerminalError, describe, isDenied, requeueAfter, watch } from "@flyball/sdk";
import { Cluster, refusal } from "@flyball/sdk/testing";

import { guestOf } from "../src/controller.js";
import { bytesOf, document, parse } from "../src/json.js";

const MAP = "v1/ConfigMap";
const map = (name, data, labels) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "a", name, labels }, data });
const controllerOf = (reconcile, more = {}) => ({
  describe: () => describe("test", "1.0.0")
    .watch(watch(MAP).fields("data.x", "metadata.labels").labelSelector("mine").enqueue(Mapping.itself()))
    .index("x", MAP, "data.x")
    .queue("test")
    .permission(MAP, "get", "update"),
  reconcile,
  ...more,
});

test("a plugin reads only what it declares", () => {
  const cluster = new Cluster([map("m", { x: "1", y: "2" }, { mine: "" }), map("other", { x: "1" })]);
  cluster.reconcile(controllerOf((host, { key }) => {
    assert.deepEqual(host.get(MAP, key).data, { x: "1" });
    assert.equal(host.get(MAP, { namespace: "a", name: "other" }), undefined);
    assert.equal(host.list(MAP, { index: { x: "1" } }).length, 1);
    assert.equal(host.count(MAP, { index: { x: "2" } }), 0);
    for (const read of [
      () => host.get("v1/Pod", key), () => host.get(MAP, key, { fields: ["data.y"] }), () => host.rows(MAP, ["data"]),
      () => host.live.list(MAP), () => host.live.raw("/version"), () => host.kinds(),
    ]) assert.throws(read, isDenied);
    assert.throws(() => host.list(MAP, { index: { y: "1" } }), /declares no index/);
  }), "a/m");
});

test("a plugin writes only what it asks for", () => {
  const cluster = new Cluster([map("m", { x: "1" }, { mine: "" })]);
  cluster.reconcile(controllerOf((host, { key }) => {
    host.update(MAP, host.get(MAP, key), { data: { x: "2" } });
    assert.equal(host.get(MAP, key).data.x, "2");
    assert.throws(() => host.delete(MAP, key), isDenied);
  }), { namespace: "a", name: "m" });
  assert.deepEqual(cluster.written(), ["update v1/ConfigMap a/m", "delete v1/ConfigMap a/m: the plugin does not ask to delete v1/ConfigMap: add `permission(\"v1/ConfigMap\", \"delete\")` to its description (403 Denied)"]);
});

test("the outcome of a reconcile is that of the world", () => {
  const reported = [];
  const outcome = (reconcile) => {
    const guest = guestOf(controllerOf(reconcile), new Cluster().host(), (name, error) => reported.push(`${name}: ${error.message}`));
    return guest.reconcile("test", "a/m", 2);
  };
  const thrower = (error) => () => { throw error; };
  assert.deepEqual(outcome(() => {}), { tag: "done" });
  assert.deepEqual(outcome(() => requeueAfter(1500.2)), { tag: "requeue-after", val: 1501 });
  assert.deepEqual(outcome(thrower(refusal(409, "Conflict", "no"))), { tag: "failed", val: "no (409 Conflict)" });
  assert.deepEqual(outcome(thrower(new ReconcileError("later", { cause: new Error("busy") }))), { tag: "failed", val: "later: Error: busy" });
  assert.deepEqual(outcome(thrower(new TerminalError("never"))), { tag: "terminal", val: "never" });
  assert.deepEqual(reported, []);
  // Its place in the author's code comes first, in one form in all languages.
  assert.match(outcome(function spec() { return null.spec; }).val, /^TypeError: Cannot read .* \(reading 'spec'\) \([^()]*plugin\.test\.js:\d+ in .*spec\)$/);
  assert.match(outcome(async () => {}).val, /without `async`/);
  assert.match(outcome(() => ({ requeueAfterMs: "soon" })).val, /malformed outcome/);
  assert.equal(reported.length, 3);
  outcome((_, request) => assert.deepEqual(request, { queue: "test", key: { namespace: "a", name: "m" }, text: "a/m", attempt: 2 }));
});

test("deltas are routed to keys, and a failure is the world's", () => {
  const seen = [];
  const controller = controllerOf(() => {}, {
    route(host, deltas) {
      seen.push(...deltas);
      if (deltas.length === 0) throw new ReconcileError("nothing");
      return [{ key: { namespace: "a", name: "k" }, delayMs: 5 }, { key: "whole", queue: "slow" }];
    },
  });
  const guest = guestOf(controller, new Cluster().host(), () => {});
  const delta = { watch: MAP, deltaType: "modified", old: null, new: document({ a: "ü😀" }), initial: true };
  assert.deepEqual(guest.route([delta]), [{ queue: "", key: "a/k", delayMs: 5 }, { queue: "slow", key: "whole", delayMs: 0 }]);
  assert.deepEqual(seen, [{ watch: MAP, type: "modified", old: undefined, new: { a: "ü😀" }, initial: true }]);
  assert.throws(() => guest.route([]), (error) => error === "nothing");
  assert.deepEqual(guestOf(controllerOf(() => {}), undefined, () => {}).route([delta]), []);
});

test("the description depends on the configuration", () => {
  const cluster = new Cluster();
  cluster.setConfig("delay", "5");
  const guest = guestOf({ describe: (host) => describe("test", host.config("delay")).queue("q") }, cluster.host(), () => {});
  assert.equal(parse(guest.describe()).version, "5");
  assert.deepEqual(parse(bytesOf("[1]")), [1]);
});
