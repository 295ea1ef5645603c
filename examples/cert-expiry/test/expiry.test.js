import assert from "node:assert/strict";
import { test } from "node:test";

import { TerminalError } from "@flyball/sdk";
import { Cluster } from "@flyball/sdk/testing";

import { SECRET, certExpiry } from "../src/expiry.js";
import { certificate } from "./make.js";

const KEY = "team/web";
const DAY = 24 * 3_600_000;

/** A TLS Secret, with a private key that the controller must not see. */
function secret(crt) {
  return {
    apiVersion: "v1",
    kind: "Secret",
    type: "kubernetes.io/tls",
    metadata: { namespace: "team", name: "web" },
    data: { "tls.crt": btoa(crt), "tls.key": btoa("private") },
  };
}

/** Reconciles the Secret, and returns the outcome in days, the events, and the metrics by name. It writes nothing. */
function observe(cluster) {
  const { requeueAfterMs } = cluster.reconcile(certExpiry, KEY) ?? {};
  assert.deepEqual(cluster.written(), []);
  const metrics = Object.fromEntries(cluster.metrics().map(({ name, value }) => [name, value]));
  return { days: requeueAfterMs === undefined ? undefined : requeueAfterMs / DAY, events: cluster.events(), metrics };
}

test("a certificate that is valid for long is looked at again when the warnings begin", () => {
  const cluster = new Cluster([secret(certificate("260221000000Z"))]);
  const found = observe(cluster);
  assert.deepEqual(found.events, []);
  assert.equal(found.days, 51 - 30);
  assert.deepEqual(found.metrics, { not_after_timestamp_seconds: Date.UTC(2026, 1, 21) / 1000, expiring: 0, unreadable: 0 });
});

test("no requeue is longer than the host's longest", () => {
  const cluster = new Cluster([secret(certificate("99991231235959Z"))]);
  assert.equal(observe(cluster).days, 30);
});

test("a certificate that is about to expire is warned of every day, and when it expires", () => {
  const cluster = new Cluster([secret(certificate("260103120000Z"))]);
  assert.deepEqual(observe(cluster), {
    days: 1,
    events: ["Warning CertificateExpiring the certificate expires at 2026-01-03T12:00:00.000Z, in 2 days"],
    metrics: { not_after_timestamp_seconds: Date.UTC(2026, 0, 3, 12) / 1000, expiring: 1, unreadable: 0 },
  });
  cluster.advance(DAY);
  assert.match(observe(cluster).events[0], /, in 1 day$/);
  cluster.advance(DAY);
  const last = observe(cluster);
  assert.match(last.events[0], /, in less than a day$/);
  assert.equal(last.days, 0.5);
  cluster.advance(DAY / 2);
  const expired = observe(cluster);
  assert.deepEqual(expired.events, ["Warning CertificateExpired the certificate expired at 2026-01-03T12:00:00.000Z"]);
  assert.equal(expired.days, 1);
});

test("a renewed certificate ends the warnings", () => {
  const cluster = new Cluster([secret(certificate("260103120000Z"))]);
  observe(cluster);
  cluster.edit(SECRET, KEY, (found) => { found.data["tls.crt"] = btoa(certificate("270101000000Z")); });
  const found = observe(cluster);
  assert.deepEqual(found.events, []);
  assert.equal(found.metrics.expiring, 0);
});

test("the window of the warnings can be set", () => {
  const cluster = new Cluster([secret(certificate("260103120000Z"))]);
  cluster.setConfig("warn-before", "24h");
  assert.deepEqual(observe(cluster).events, []);
  cluster.setConfig("warn-before", "soon");
  assert.throws(() => cluster.reconcile(certExpiry, KEY), (error) => error instanceof TerminalError && error.message.includes("warn-before"));
});

test("a Secret without a readable certificate is reported, and not retried", () => {
  for (const [data, reason] of [
    [{}, "it holds no certificate"],
    [undefined, "it holds no certificate"],
    [{ "tls.crt": "%" }, "it is not valid Base64"],
    [{ "tls.crt": btoa("garbage \u00ff") }, "it holds no certificate"],
  ]) {
    const cluster = new Cluster([{ ...secret(""), data }]);
    const found = observe(cluster);
    assert.deepEqual(found.events, [`Warning CertificateUnreadable can't read tls.crt: ${reason}`]);
    assert.equal(found.days, undefined);
    assert.deepEqual(found.metrics, { not_after_timestamp_seconds: 0, expiring: 0, unreadable: 1 });
  }
});

test("a deleted Secret leaves no metrics", () => {
  const cluster = new Cluster([secret(certificate("260103120000Z"))]);
  observe(cluster);
  cluster.remove(SECRET, KEY);
  const found = observe(cluster);
  assert.deepEqual(found.events, []);
  assert.deepEqual(found.metrics, { not_after_timestamp_seconds: 0, expiring: 0, unreadable: 0 });
});

test("the private key stays out of sight", () => {
  const [watch] = certExpiry.describe().toJSON().watches;
  assert.deepEqual(watch.fields, ["data['tls.crt']"]);
  assert.equal(watch.fieldSelector, "type=kubernetes.io/tls");
});
