// Warns of TLS Secrets whose certificates are about to expire, by events and metrics.

import { Mapping, describe, requeueAfter, watch } from "@flyball/sdk";

import { decodeBase64, earliestExpiry } from "./certificates.js";

export const SECRET = "v1/Secret";
/** The only field of the data that is read. The private key never enters the sandbox. */
const CERTIFICATE = "data['tls.crt']";

const WARN_BEFORE = "warn-before";
const NOT_AFTER = "not_after_timestamp_seconds";
const EXPIRING = "expiring";
const UNREADABLE = "unreadable";

const DAY = 24 * 3_600_000;
/** The longest time until the next look; a requeue lasts 49 days at most. */
const LONGEST = 30 * DAY;

/** @type {import("@flyball/sdk").Controller} */
export const certExpiry = {
  describe: () =>
    describe("cert-expiry", "0.1.0")
      .watch(watch(SECRET).fieldSelector("type=kubernetes.io/tls").fields(CERTIFICATE).whenAt(CERTIFICATE).enqueue(Mapping.itself()))
      .queue("cert-expiry")
      .config(WARN_BEFORE, { default: "720h", help: "How long before a certificate expires the warnings begin" })
      .sum(NOT_AFTER, "When the first certificate of a Secret expires, in seconds since 1970; 0 if the Secret is gone or unreadable.", "namespace", "secret")
      .sum(EXPIRING, "Secrets with a certificate that has expired or is about to.", "namespace")
      .sum(UNREADABLE, "TLS Secrets without a readable certificate.", "namespace"),

  reconcile(host, { key }) {
    const secret = host.get(SECRET, key);
    const found = secret === undefined ? {} : look(secret, host.now(), host.configDuration(WARN_BEFORE, 30 * DAY));
    // 0 removes the part of a Secret that is gone or renewed.
    host.metrics.set(NOT_AFTER, [key.namespace, key.name], (found.notAfter ?? 0) / 1000);
    host.metrics.set(EXPIRING, [key.namespace], found.isExpiring ? 1 : 0);
    host.metrics.set(UNREADABLE, [key.namespace], found.isUnreadable ? 1 : 0);
    if (found.warning !== undefined) {
      host.emit(SECRET, secret, "Warning", found.warning.reason, found.warning.message, { once: true });
    }
    return found.nextMs === undefined ? undefined : requeueAfter(found.nextMs);
  },
};

/** Returns the findings about a Secret: when its certificate expires, a warning, and when to look again. */
export function look(secret, now, warnBeforeMs) {
  let notAfter;
  try {
    notAfter = earliestExpiry(decodeBase64(secret.data?.["tls.crt"] ?? ""));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { isUnreadable: true, warning: { reason: "CertificateUnreadable", message: `can't read tls.crt: ${error.message}` } };
  }
  const leftMs = notAfter - now;
  if (leftMs > warnBeforeMs) return { notAfter, nextMs: Math.min(leftMs - warnBeforeMs, LONGEST) };
  const when = notAfter.toISOString();
  if (leftMs <= 0) {
    return { notAfter, isExpiring: true, nextMs: DAY, warning: { reason: "CertificateExpired", message: `the certificate expired at ${when}` } };
  }
  const message = `the certificate expires at ${when}, in ${span(leftMs)}`;
  // Warns once a day, and as soon as it has expired.
  return { notAfter, isExpiring: true, nextMs: Math.min(DAY, leftMs), warning: { reason: "CertificateExpiring", message } };
}

/** Returns a duration for people, in whole days or less than one. */
function span(ms) {
  const days = Math.floor(ms / DAY);
  if (days < 1) return "less than a day";
  return days === 1 ? "1 day" : `${days} days`;
}
