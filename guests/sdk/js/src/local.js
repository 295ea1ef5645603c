// Handles of the host for its log, events, and the plugin's queues, metrics, memo and signing keys.

import { call } from "./errors.js";
import { document, parse } from "./json.js";
import { keyOf, keyText } from "./objects.js";

export class Log {
  #log;

  constructor(log) {
    this.#log = log;
  }

  trace(message, fields) {
    this.#write("trace", message, fields);
  }

  debug(message, fields) {
    this.#write("debug", message, fields);
  }

  info(message, fields) {
    this.#write("info", message, fields);
  }

  warn(message, fields) {
    this.#write("warn", message, fields);
  }

  error(message, fields) {
    this.#write("error", message, fields);
  }

  enabled(level) {
    return this.#log.enabled(level);
  }

  #write(level, message, fields = {}) {
    if (!this.#log.enabled(level)) return;
    const lower = ([name, value]) => ({ name, value: typeof value === "string" ? value : JSON.stringify(value) ?? "undefined" });
    this.#log.write(level, message, Object.entries(fields).map(lower));
  }
}

export class Queue {
  #queue;

  constructor(queue) {
    this.#queue = queue;
  }

  add(key, { queue = "", afterMs = 0 } = {}) {
    const text = textOfKey(key);
    call(() => (afterMs > 0 ? this.#queue.addAfter(queue, text, millis(afterMs)) : this.#queue.add(queue, text)));
  }

  forget(key, { queue = "" } = {}) {
    call(() => this.#queue.forget(queue, textOfKey(key)));
  }

  requeues(key, { queue = "" } = {}) {
    return call(() => this.#queue.requeues(queue, textOfKey(key)));
  }
}

export class Metrics {
  #metrics;

  constructor(metrics) {
    this.#metrics = metrics;
  }

  add(name, labels = [], value = 1) {
    this.#metrics.add(name, labels, value);
  }

  set(name, labels, value) {
    this.#metrics.set(name, labels, value);
  }

  observe(name, labels, value) {
    this.#metrics.observe(name, labels, value);
  }
}

export class Memo {
  #memo;

  constructor(memo) {
    this.#memo = memo;
  }

  get(key) {
    return this.entry(key)?.value;
  }

  entry(key) {
    const found = this.#memo.get(key);
    return found == null ? undefined : { value: parse(found.value), version: found.version };
  }

  put(key, value, { version, uid = "", ttlMs = 0 } = {}) {
    const expected = version ?? this.#memo.get(key)?.version ?? 0;
    return call(() => this.#memo.put(key, expected, document(value), uid, millis(ttlMs)));
  }

  remove(key) {
    this.#memo.remove(key);
  }
}

export class Signer {
  #signer;

  constructor(signer) {
    this.#signer = signer;
  }

  signJwt(key, claims) {
    return call(() => this.#signer.signJwt(key, document(claims)));
  }

  verifyJwt(key, token) {
    return parse(call(() => this.#signer.verifyJwt(key, token)));
  }

  certificateAuthority(signer) {
    return call(() => this.#signer.certificateAuthority(signer));
  }

  signCertificate(signer, template) {
    const { publicKey, request, subject = [], keyUsages = [], notBefore, notAfter } = template;
    const list = (name) => template[name] ?? [];
    const lowered = {
      key: request === undefined ? { tag: "public-key", val: publicKey } : { tag: "request", val: request },
      subject,
      dnsNames: list("dnsNames"),
      emailAddresses: list("emailAddresses"),
      ipAddresses: list("ipAddresses"),
      uris: list("uris"),
      keyUsages: Object.fromEntries(KEY_USAGES.map((usage) => [usage, keyUsages.includes(usage)])),
      extendedKeyUsages: list("extendedKeyUsages"),
      notBefore: time(notBefore),
      notAfter: time(notAfter),
    };
    return call(() => this.#signer.signCertificate(signer, lowered));
  }
}

const KEY_USAGES = [
  "digitalSignature", "contentCommitment", "keyEncipherment", "dataEncipherment", "keyAgreement", "certSign", "crlSign",
  "encipherOnly", "decipherOnly",
];

/** Emits an event about an object. */
export function emit(events, kind, about, type, reason, message, { action, related, annotations, reportingController, once } = {}) {
  const { uid = "", resourceVersion } = about.metadata;
  const options = { action, annotations, related, reportingController, resourceVersion, once };
  events.emit({ kind, ...keyOf(about), uid }, type, reason, message, document(options));
}

const textOfKey = (key) => (typeof key === "string" ? key : keyText(key));

/** Whole milliseconds, rounded up, of at most 49 days. */
export const millis = (ms) => Math.min(Math.ceil(ms), 0xffff_ffff);

const time = (date) => ({ seconds: Math.floor(date.getTime() / 1000), nanoseconds: (date.getTime() % 1000) * 1e6 });
