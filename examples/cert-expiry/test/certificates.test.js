import assert from "node:assert/strict";
import { test } from "node:test";

import { earliestExpiry } from "../src/certificates.js";
import { certificate, pem } from "./make.js";

const iso = (text) => earliestExpiry(text).toISOString();

/** The output of `openssl req -x509 -newkey ed25519 -subj "/CN=größe" -days 3650`. */
const BY_OPENSSL = `-----BEGIN CERTIFICATE-----
MIIBODCB66ADAgECAhQNJLsoi2coB71pNtyJuLCeZI3c8jAFBgMrZXAwEjEQMA4G
A1UEAwwHZ3LDtsOfZTAeFw0yNjExMjYwMjExMTBaFw0zNjExMjMwMjExMTBaMBIx
EDAOBgNVBAMMB2dyw7bDn2UwKjAFBgMrZXADIQAd+FN99eyeb52YRL+sPcu0mWxp
pJl/xUjemH5AQfqeJKNTMFEwHQYDVR0OBBYEFFNw3p95Kt09FKHrUXwxbt4/MQaL
MB8GA1UdIwQYMBaAFFNw3p95Kt09FKHrUXwxbt4/MQaLMA8GA1UdEwEB/wQFMAMB
Af8wBQYDK2VwA0EAaz/3A/d/b+KF+kUif7WzwD8bYUQ4uFF6LxPQxEBrxf07QzHK
Lmyik9xVB85JvcrgbE0da9uEGsp446xpGcLPDA==
-----END CERTIFICATE-----
`;

test("the expiry of a certificate by openssl is read", () => {
  assert.equal(iso(BY_OPENSSL), "2036-11-23T02:11:10.000Z");
});

test("times of both types are read", () => {
  for (const [time, expected] of [
    ["260301120000Z", "2026-03-01T12:00:00.000Z"],
    ["491231235959Z", "2049-12-31T23:59:59.000Z"],
    ["500101000000Z", "1950-01-01T00:00:00.000Z"],
    ["20500101000000Z", "2050-01-01T00:00:00.000Z"],
    // RFC 5280's "no expiry".
    ["99991231235959Z", "9999-12-31T23:59:59.000Z"],
    ["00500101000000Z", "0050-01-01T00:00:00.000Z"],
  ]) {
    assert.equal(iso(certificate(time)), expected);
  }
});

test("a certificate of version 1 has no field for it", () => {
  assert.equal(iso(certificate("260301120000Z", { version: false })), "2026-03-01T12:00:00.000Z");
});

test("of a chain the earliest expiry counts, and text between is skipped", () => {
  const chain = `subject=leaf\n${certificate("270101000000Z")}\nsubject=intermediate\r\n${certificate("260501000000Z").replaceAll("\n", "\r\n")}${certificate("300101000000Z")}`;
  assert.equal(iso(chain), "2026-05-01T00:00:00.000Z");
});

test("what is no certificate is refused, with the reason", () => {
  for (const [text, message] of [
    ["", "it holds no certificate"],
    ["-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "it holds no certificate"],
    ["-----BEGIN CERTIFICATE-----\nAAAA", "the end of a certificate is missing"],
    ["-----BEGIN CERTIFICATE-----\nÄ\n-----END CERTIFICATE-----", "it is not valid Base64"],
    [pem(""), "certificate 1: an element is missing"],
    [pem("\x02\x01\x01"), "certificate 1: the element 2 is not expected"],
    [pem("\x30\x05\x30"), "certificate 1: an element is cut off"],
    [pem("\x30\x80\x00\x00"), "certificate 1: the length of an element is malformed"],
    [pem("\x30\x85\x01\x01\x01\x01\x01"), "certificate 1: the length of an element is malformed"],
    [certificate("2603011200Z"), "certificate 1: a time is malformed"],
    [certificate("260301120000+0100"), "certificate 1: a time is malformed"],
    [certificate("270101000000Z") + pem("\x30\x00"), "certificate 2: an element is missing"],
  ]) {
    assert.throws(() => earliestExpiry(text), { name: "SyntaxError", message });
  }
});

test("a certificate that is cut off anywhere is refused", () => {
  const whole = atob(certificate("260301120000Z").replace(/-----[A-Z ]+-----/g, ""));
  for (let length = 0; length < whole.length; length++) {
    assert.throws(() => earliestExpiry(pem(whole.slice(0, length))), SyntaxError, `${length} bytes`);
  }
});

test("a text of many beginnings takes no longer than its length deserves", () => {
  const text = "-----BEGIN CERTIFICATE-----\n".repeat(40_000);
  assert.throws(() => earliestExpiry(text), { message: "the end of a certificate is missing" });
});
