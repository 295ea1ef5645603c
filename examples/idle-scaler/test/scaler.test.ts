import assert from "node:assert/strict";
import { test } from "node:test";

import { isConflict, isForbidden } from "@flyball/sdk";
import { Cluster, refusal } from "@flyball/sdk/testing";

import { DEPLOYMENT, HOURS, REPLICAS, TIME_ZONE, idleScaler } from "../src/scaler.ts";

const KEY = "team/web";
const HOUR = 3_600_000;
const UPDATE = "update apps/v1/Deployment team/web";
const MORNING = "2026-01-05T07:30:00Z"; // a Monday
const NOON = "2026-01-05T12:00:00Z";
const EVENING = "2026-01-05T18:00:00Z";

/** A cluster with a Deployment that has these annotations. */
function cluster(now: string, replicas = 3, annotations: Record<string, string> = { [HOURS]: "Mon-Fri 08:00-18:00" }): Cluster {
  const cluster = new Cluster([{
    apiVersion: "apps/v1", kind: "Deployment", metadata: { namespace: "team", name: "web", annotations }, spec: { replicas },
  }]);
  cluster.setNow(now);
  return cluster;
}

/** Reconciles, and returns the writes, the events, and the hours until the next reconcile. */
function reconcile(cluster: Cluster) {
  const { requeueAfterMs } = cluster.reconcile(idleScaler, KEY) ?? {};
  return { written: cluster.written(), events: cluster.events(), hours: requeueAfterMs === undefined ? undefined : requeueAfterMs / HOUR };
}

/** The replicas, and the noted replicas. */
function replicas(cluster: Cluster): [number | undefined, string | undefined] {
  const deployment = cluster.object(DEPLOYMENT, KEY);
  return [deployment?.spec?.replicas, deployment?.metadata.annotations?.[REPLICAS]];
}

test("a Deployment sleeps outside of its hours, and wakes with its earlier replicas", () => {
  const asleep = cluster(EVENING);
  assert.deepEqual(reconcile(asleep), { written: [UPDATE], events: ["Normal ScaledToZero scaled from 3 to 0 until 2026-01-06T08:00:00.000Z"], hours: 1 });
  assert.deepEqual(replicas(asleep), [0, "3"]);
  asleep.setNow("2026-01-06T08:00:00Z");
  assert.deepEqual(reconcile(asleep), { written: [UPDATE], events: ["Normal ScaledUp scaled from 0 to 3"], hours: 1 });
  assert.deepEqual(replicas(asleep), [3, undefined]);
});

test("nothing is written twice", () => {
  const asleep = cluster(EVENING);
  reconcile(asleep);
  assert.deepEqual(reconcile(asleep), { written: [], events: [], hours: 1 });
  const awake = cluster(NOON);
  assert.deepEqual(reconcile(awake), { written: [], events: [], hours: 1 });
});

test("the next reconcile is when the hours begin, and after an hour at the latest", () => {
  assert.equal(reconcile(cluster(MORNING)).hours, 0.5);
  assert.equal(reconcile(cluster(NOON)).hours, 1);
});

test("hours are those of the time zone", () => {
  const zurich = { [HOURS]: "Mon-Fri 08:00-18:00", [TIME_ZONE]: "Europe/Zurich" };
  const early = cluster(MORNING, 3, zurich);
  assert.deepEqual(reconcile(early).written, []);
  const late = cluster("2026-01-05T17:30:00Z", 3, zurich);
  assert.deepEqual(reconcile(late).written, [UPDATE]);
});

test("a Deployment without hours is left alone, and wakes if they are removed", () => {
  assert.deepEqual(reconcile(cluster(EVENING, 3, {})), { written: [], events: [], hours: undefined });
  const asleep = cluster(EVENING);
  reconcile(asleep);
  asleep.edit(DEPLOYMENT, KEY, (deployment) => { delete deployment.metadata.annotations![HOURS]; });
  assert.deepEqual(reconcile(asleep).events, ["Normal ScaledUp scaled from 0 to 3"]);
  assert.deepEqual(replicas(asleep), [3, undefined]);
});

test("somebody who scales a sleeping Deployment changes what it wakes with", () => {
  const asleep = cluster(EVENING);
  reconcile(asleep);
  asleep.edit(DEPLOYMENT, KEY, (deployment) => { deployment.spec!.replicas = 5; });
  reconcile(asleep);
  assert.deepEqual(replicas(asleep), [0, "5"]);
});

test("somebody who was faster to wake a Deployment is right", () => {
  const asleep = cluster(EVENING);
  reconcile(asleep);
  asleep.edit(DEPLOYMENT, KEY, (deployment) => { deployment.spec!.replicas = 1; });
  asleep.setNow("2026-01-06T08:00:00Z");
  assert.deepEqual(reconcile(asleep).events, []);
  assert.deepEqual(replicas(asleep), [1, undefined]);
});

test("a Deployment that its owner has scaled to zero stays there", () => {
  const asleep = cluster(EVENING, 0);
  assert.deepEqual(reconcile(asleep).written, []);
  asleep.setNow("2026-01-06T08:00:00Z");
  assert.deepEqual(reconcile(asleep).written, []);
  assert.deepEqual(replicas(asleep), [0, undefined]);
});

test("malformed hours are reported, change nothing, and are not retried", () => {
  const message = "Warning InvalidHours `Mo-Fr 8-18` is not like `Mon-Fri 08:00-18:00`";
  assert.deepEqual(reconcile(cluster(EVENING, 3, { [HOURS]: "Mo-Fr 8-18" })), { written: [], events: [message], hours: undefined });
  // An invalid annotation changes nothing, even if the Deployment is scaled to zero.
  assert.deepEqual(reconcile(cluster(EVENING, 0, { [HOURS]: "Mo-Fr 8-18", [REPLICAS]: "3" })).written, []);
});

test("a spoilt note is reported, and nothing is guessed", () => {
  for (const note of ["many", "-1", "3.5", "", "99999999999"]) {
    const spoilt = cluster(NOON, 0, { [HOURS]: "Mon-Fri 08:00-18:00", [REPLICAS]: note });
    const { written, events } = reconcile(spoilt);
    assert.deepEqual(written, []);
    assert.match(events[0]!, /^Warning InvalidReplicas /);
    // Scaling it up by hand resets the annotation.
    spoilt.edit(DEPLOYMENT, KEY, (deployment) => { deployment.spec!.replicas = 2; });
    reconcile(spoilt);
    assert.deepEqual(replicas(spoilt), [2, undefined]);
  }
});

test("a conflict fails the reconcile and loses no replicas", () => {
  const conflicting = cluster(EVENING);
  conflicting.fail("update", DEPLOYMENT, refusal(409, "Conflict"));
  assert.throws(() => conflicting.reconcile(idleScaler, KEY), isConflict);
  assert.deepEqual(replicas(conflicting), [3, undefined]);
  assert.deepEqual(conflicting.events(), []);
  conflicting.written();
  reconcile(conflicting);
  assert.deepEqual(replicas(conflicting), [0, "3"]);
});

test("an account without the right fails, and says so", () => {
  const forbidden = cluster(EVENING);
  forbidden.fail("update", DEPLOYMENT, refusal(403, "Forbidden"));
  assert.throws(() => forbidden.reconcile(idleScaler, KEY), isForbidden);
});

test("a Deployment that is gone or being deleted needs nothing", () => {
  const gone = cluster(EVENING);
  gone.edit(DEPLOYMENT, KEY, (deployment) => { deployment.metadata.deletionTimestamp = EVENING; });
  assert.deepEqual(reconcile(gone), { written: [], events: [], hours: undefined });
  gone.remove(DEPLOYMENT, KEY);
  assert.deepEqual(reconcile(gone), { written: [], events: [], hours: undefined });
});
