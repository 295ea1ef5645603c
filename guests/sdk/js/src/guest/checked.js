// The world's functions, with checks for calls that would trap, because a trap has no message: an argument of another
// type, and a call while the modules are loaded.

const TEXT = { name: "a text", holds: (value) => typeof value === "string" };
const WHOLE = { name: "a whole number of at most 32 bits", holds: (value) => Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff };
const NUMBER = { name: "a number", holds: (value) => typeof value === "number" };
const BYTES = { name: "a Uint8Array", holds: (value) => value instanceof Uint8Array };
const ANY = { name: "anything", holds: () => true };
const listOf = (item) => ({ name: "a list", item, holds: Array.isArray });
const recordOf = (fields) => ({ name: "an object", fields: Object.entries(fields), holds: (value) => value !== null && typeof value === "object" });

const TEXTS = listOf(TEXT);
const PAIRS = listOf(recordOf({ name: TEXT, value: TEXT }));
const TARGET = recordOf({ kind: TEXT, namespace: TEXT, name: TEXT, subresource: TEXT });
const REFERENCE = recordOf({ kind: TEXT, namespace: TEXT, name: TEXT, uid: TEXT });
const QUERY = recordOf({ kind: TEXT, namespace: TEXT, conditions: PAIRS });
const QUEUED = { queue: TEXT, key: TEXT };
const ANSWERED = { options: BYTES, returns: TEXTS };
const TIME = recordOf({ seconds: WHOLE, nanoseconds: WHOLE });
const CERTIFICATE = recordOf({
  key: recordOf({ tag: TEXT, val: BYTES }), subject: listOf(listOf(recordOf({ oid: TEXT, value: TEXT }))), dnsNames: TEXTS,
  emailAddresses: TEXTS, ipAddresses: TEXTS, uris: TEXTS, extendedKeyUsages: TEXTS, notBefore: TIME, notAfter: TIME,
});
const MEASURED = { name: TEXT, labels: TEXTS, value: NUMBER };

/** The arguments of each function, in their order. The functions of a resource are listed under its class. */
const ARGUMENTS = {
  clock: { now: {} },
  config: { get: { key: TEXT } },
  discovery: { kinds: {} },
  events: { emit: { about: REFERENCE, type: TEXT, reason: TEXT, message: TEXT, options: BYTES } },
  lister: {
    get: { kind: TEXT, namespace: TEXT, name: TEXT, fields: TEXTS },
    list: { query: QUERY, projection: recordOf({ tag: TEXT }), limit: WHOLE },
    next: { rest: ANY, limit: WHOLE },
    count: { query: QUERY },
    deletionObserved: { object: REFERENCE },
  },
  log: { write: { level: TEXT, message: TEXT, fields: PAIRS }, enabled: { level: TEXT } },
  memo: {
    get: { key: TEXT },
    put: { key: TEXT, expected: WHOLE, value: BYTES, objectUid: TEXT, ttlMs: WHOLE },
    remove: { key: TEXT },
  },
  metrics: { add: MEASURED, set: MEASURED, observe: MEASURED },
  queue: { add: QUEUED, addAfter: { ...QUEUED, delayMs: WHOLE }, forget: QUEUED, requeues: QUEUED },
  random: { bytes: { count: WHOLE } },
  reader: {
    Batch: {
      get: { kind: TEXT, namespace: TEXT, name: TEXT, fields: TEXTS },
      list: { kind: TEXT, namespace: TEXT, parameters: PAIRS, fields: TEXTS },
      raw: { path: TEXT },
      run: {},
    },
  },
  signer: {
    signJwt: { key: TEXT, claims: BYTES },
    verifyJwt: { key: TEXT, token: TEXT },
    certificateAuthority: { signer: TEXT },
    signCertificate: { signer: TEXT, template: CERTIFICATE },
  },
  writer: {
    Batch: {
      create: { target: TARGET, object: BYTES, ...ANSWERED },
      update: { target: TARGET, resourceVersion: TEXT, change: BYTES, ...ANSWERED },
      updateStatus: { target: TARGET, resourceVersion: TEXT, status: BYTES, metadata: BYTES, ...ANSWERED },
      patch: { target: TARGET, patchType: TEXT, patch: BYTES, ...ANSWERED },
      delete: { target: TARGET, ...ANSWERED },
      deleteCollection: { target: TARGET, labelSelector: TEXT, fieldSelector: TEXT, ...ANSWERED },
      slowStart: { initial: WHOLE },
      stopOnError: {},
      run: {},
    },
  },
};

/**
 * Returns the world with checks. A wrong argument is a TypeError that names it. `isLoading` returns whether the modules
 * are being loaded, which happens once, during the build.
 */
export function checked(world, isLoading) {
  const checkOf = (parameters, name) => {
    const types = Object.entries(parameters);
    return (args) => {
      if (isLoading()) throw new Error(`${name}: the host's functions don't work while modules are loaded; call them in the controller's functions`);
      for (let at = 0; at < types.length; at++) demand(types[at][1], args[at], name, types[at][0]);
    };
  };
  return mapFields(ARGUMENTS, (functions, name) => {
    const own = world[name];
    return mapFields(functions, (parameters, member) =>
      member === "Batch" ? checkedClass(own.Batch, parameters, name, checkOf) : checkedFunction(own[member], checkOf(parameters, `${name}.${member}`)));
  });
}

function checkedClass(Inner, methods, name, checkOf) {
  class Batch {
    inner = new Inner();
  }
  for (const [method, parameters] of Object.entries(methods)) {
    const check = checkOf(parameters, `${name}.${method}`);
    Batch.prototype[method] = function (...args) {
      check(args);
      return this.inner[method](...args);
    };
  }
  return Batch;
}

function checkedFunction(inner, check) {
  return (...args) => {
    check(args);
    return inner(...args);
  };
}

function demand(type, value, name, path) {
  if (!type.holds(value)) throw new TypeError(`${name}: ${path} is ${shown(value)}, not ${type.name}`);
  if (type.item !== undefined) value.forEach((item, at) => demand(type.item, item, name, `${path}[${at}]`));
  if (type.fields !== undefined) for (const [field, own] of type.fields) demand(own, value[field], name, `${path}.${field}`);
}

function shown(value) {
  if (value === null || ["undefined", "number", "boolean"].includes(typeof value)) return String(value);
  return Array.isArray(value) ? "a list" : `a value of type ${typeof value}`;
}

const mapFields = (object, change) => Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value, name)]));
