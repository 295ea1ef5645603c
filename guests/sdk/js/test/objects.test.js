import assert from "node:assert/strict";
import { test } from "node:test";

import {
  ApiError, controllerOf, controllerReference, getCondition, hasFinalizer, isConditionTrue, isConflict, isControlledBy, isNotFound, keyOf,
  keyText, matchesSelector, parseKey, parseKind, parseReference, referenceText, removeCondition, selectorText, setCondition, withFinalizer,
  withoutFinalizer,
} from "@flyball/sdk";

test("a kind has a group, a version and a name", () => {
  assert.deepEqual(parseKind("apps/v1/Deployment"), { group: "apps", version: "v1", kind: "Deployment", apiVersion: "apps/v1" });
  assert.equal(parseKind("v1/Pod").apiVersion, "v1");
  for (const text of ["Pod", "a/b/c/d", "v1/", ""]) assert.throws(() => parseKind(text), /is not a kind/);
});

test("a key reads back as it was written", () => {
  for (const key of [{ namespace: "a", name: "b" }, { namespace: "", name: "b" }]) assert.deepEqual(parseKey(keyText(key)), key);
  assert.deepEqual(keyOf({ metadata: { name: "n" } }), { namespace: "", name: "n" });
});

test("a reference reads back as it was written, and another key is a terminal error", () => {
  for (const [reference, text] of [
    [{ kind: "apps/v1/ReplicaSet", namespace: "demo", name: "web", uid: "u-1" }, "apps/v1/ReplicaSet/demo/web/u-1"],
    [{ kind: "v1/Node", namespace: "", name: "n1", uid: "u-1" }, "v1/Node//n1/u-1"],
    [{ kind: "v1/Pod", namespace: "demo", name: "a/~1b", uid: "u-1" }, "v1/Pod/demo/a~1~01b/u-1"],
  ]) {
    assert.equal(referenceText(reference), text);
    assert.deepEqual(parseReference(text), reference);
  }
  assert.throws(() => parseReference("demo/web"), { name: "TerminalError" });
});

test("a finalizer is added last and removed alone", () => {
  const object = { metadata: { finalizers: ["x.io/other"] } };
  assert.ok(!hasFinalizer(object, "x.io/ours"));
  const added = withFinalizer(object, "x.io/ours");
  assert.deepEqual(added.metadata.finalizers, ["x.io/other", "x.io/ours"]);
  assert.deepEqual(withoutFinalizer(added, "x.io/ours").metadata.finalizers, ["x.io/other"]);
});

test("the controller is the owner with `controller` set", () => {
  const owner = { metadata: { name: "web", uid: "2" } };
  const reference = controllerReference("apps/v1/ReplicaSet", owner);
  assert.deepEqual(reference, {
    apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: "2", controller: true, blockOwnerDeletion: true,
  });
  const object = { metadata: { ownerReferences: [{ uid: "1", controller: null }, reference] } };
  assert.equal(controllerOf(object), reference);
  assert.ok(isControlledBy(object, owner));
  assert.ok(!isControlledBy({ metadata: {} }, owner));
});

test("the transition time of a condition changes only with its status", () => {
  const conditions = [{ type: "Other", status: "True" }];
  const at = (second) => new Date(Date.UTC(2026, 0, 1, 0, 0, second, 999));
  const ready = (status, message) => ({ type: "Ready", status, reason: "R", message, observedGeneration: 1 });
  assert.ok(setCondition(conditions, ready("True", "a"), at(1)));
  assert.ok(!setCondition(conditions, ready("True", "a"), at(2)));
  assert.ok(setCondition(conditions, ready("True", "b"), at(3)));
  assert.equal(getCondition(conditions, "Ready").lastTransitionTime, "2026-01-01T00:00:01Z");
  assert.ok(setCondition(conditions, { ...ready("True", "b"), observedGeneration: 2 }, at(4)));
  assert.ok(setCondition(conditions, ready("False", "b"), at(5)));
  assert.equal(getCondition(conditions, "Ready").lastTransitionTime, "2026-01-01T00:00:05Z");
  assert.ok(isConditionTrue(conditions, "Other") && !isConditionTrue(conditions, "Ready"));
  assert.ok(removeCondition(conditions, "Ready") && !removeCondition(conditions, "Ready"));
  assert.deepEqual(conditions, [{ type: "Other", status: "True" }]);
});

test("a selector matches labels in each of its forms", () => {
  const labels = { app: "web", tier: "a" };
  for (const [selector, matches] of [
    ["", true], ["app=web", true], ["app==web,tier in (a, b)", true], ["tier notin (a)", false], ["app!=web", false],
    ["!canary", true], ["canary", false], ["app", true], ["other!=x", true],
    [{ app: "web" }, true], [{ app: "db" }, false], [{}, true], [{ matchLabels: { app: "web" } }, true],
    [{ matchExpressions: [{ key: "tier", operator: "In", values: ["b"] }] }, false],
    [{ matchExpressions: [{ key: "tier", operator: "Exists" }, { key: "x", operator: "DoesNotExist" }] }, true],
  ]) {
    assert.equal(matchesSelector(selector, labels), matches, JSON.stringify(selector));
    assert.equal(matchesSelector(selectorText(selector), labels), matches, selectorText(selector));
  }
  assert.throws(() => matchesSelector("a b", labels), /not a requirement/);
});

test("an error of an unknown kind says nothing about the object", () => {
  const error = (status, reason) => new ApiError({ status, reason, message: "m", effect: "none" });
  assert.ok(isNotFound(error(404, "NotFound")) && !isNotFound(error(404, "UnknownKind")) && !isNotFound(new Error("m")));
  assert.ok(isConflict(error(409, "Conflict")) && !isConflict(error(409, "AlreadyExists")));
  assert.equal(error(409, "Conflict").message, "m (409 Conflict)");
});
