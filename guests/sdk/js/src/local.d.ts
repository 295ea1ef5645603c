import type { ObjectReference } from "./host.js";
import type { Key } from "./objects.js";

export type Level = "trace" | "debug" | "info" | "warn" | "error";

/** The host's log. The host adds the plugin's name and the key. */
export class Log {
  constructor(log: any);
  trace(message: string, fields?: Record<string, unknown>): void;
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
  /** Whether lines of this level are kept. */
  enabled(level: Level): boolean;
}

/** The plugin's workqueues. Without a name, the primary queue is meant. */
export class Queue {
  constructor(queue: any);
  /** Enqueues a key, at once or later. If it is pending several times, the earliest time applies. */
  add(key: Key | string, options?: { queue?: string; afterMs?: number }): void;
  /** Resets the backoff of a key. */
  forget(key: Key | string, options?: { queue?: string }): void;
  /** Number of retries of a key since it last succeeded. */
  requeues(key: Key | string, options?: { queue?: string }): number;
}

/** The plugin's metrics. `labels` are the label values, in the order of the declared names. */
export class Metrics {
  constructor(metrics: any);
  /** Adds to a counter; 1 by default. */
  add(name: string, labels?: string[], value?: number): void;
  /** Sets a gauge, or the part of the key that is being reconciled in a sum. */
  set(name: string, labels: string[], value: number): void;
  /** Observes a value in a histogram. */
  observe(name: string, labels: string[], value: number): void;
}

/**
 * The plugin's memo. The host may empty it between any two calls, so it must hold only data that can be computed again.
 */
export class Memo {
  constructor(memo: any);
  get<T = any>(key: string): T | undefined;
  /** The value of a key with its version. */
  entry<T = any>(key: string): { value: T; version: number } | undefined;
  /**
   * Stores a value until the object with this UID is deleted, or this time has passed. Returns its version.
   *
   * With `version`, fails with `Conflict` if the key has another one; 0 means that it has no value.
   */
  put(key: string, value: unknown, options?: { version?: number; uid?: string; ttlMs?: number }): number;
  remove(key: string): void;
}

export type KeyUsage =
  | "digitalSignature" | "contentCommitment" | "keyEncipherment" | "dataEncipherment" | "keyAgreement" | "certSign" | "crlSign"
  | "encipherOnly" | "decipherOnly";

/** The content of a certificate. The host adds the serial number and the issuer. */
export type CertificateTemplate = ({ publicKey: Uint8Array } | { request: Uint8Array }) & {
  /** The subject's relative names. The type of an attribute is its object identifier, such as `2.5.4.3`. */
  subject?: { oid: string; value: string }[][];
  dnsNames?: string[];
  emailAddresses?: string[];
  ipAddresses?: string[];
  uris?: string[];
  keyUsages?: KeyUsage[];
  /** Object identifiers in dotted form. */
  extendedKeyUsages?: string[];
  notBefore: Date;
  notAfter: Date;
};

/** Signing with keys of the host, which the operator names. */
export class Signer {
  constructor(signer: any);
  /** Returns a JSON Web Token with these claims. */
  signJwt(key: string, claims: object): string;
  /** Verifies a token's signature, and returns its claims. Does not check the claims. */
  verifyJwt<T = any>(key: string, token: string): T;
  /** Returns the certificates of a signer's authority in DER. The first certificate belongs to the key that signs. */
  certificateAuthority(signer: string): Uint8Array[];
  /** Returns a certificate in DER. */
  signCertificate(signer: string, template: CertificateTemplate): Uint8Array;
}

export interface EventOptions {
  /** The action, as one CamelCase word. */
  action?: string;
  /** A second object that the event refers to. */
  related?: ObjectReference;
  annotations?: Record<string, string>;
  /** Makes it an event of `events.k8s.io/v1`, reported by a controller of this name. It needs an action. */
  reportingController?: string;
  /** Drops the event if the plugin has emitted the same one, about the same object, within the last hour. */
  once?: boolean;
}
