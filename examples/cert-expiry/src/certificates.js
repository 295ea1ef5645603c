// Reads when certificates expire. Parses X.509 only as far as that field, and checks no signature.

const BEGIN = "-----BEGIN CERTIFICATE-----";
const END = "-----END CERTIFICATE-----";

// The tags of DER that the reader expects.
const INTEGER = 0x02;
const UTC_TIME = 0x17;
const GENERALIZED_TIME = 0x18;
const SEQUENCE = 0x30;
/** The version, which certificates of version 1 leave out. */
const EXPLICIT_0 = 0xa0;

/**
 * Returns when the first certificate of a chain in PEM expires.
 *
 * @throws {SyntaxError} if there is none, or if one is malformed.
 */
export function earliestExpiry(pem) {
  let earliest;
  let count = 0;
  for (const der of blocks(pem)) {
    count += 1;
    const notAfter = within(`certificate ${count}`, () => expiryOf(der));
    if (earliest === undefined || notAfter < earliest) earliest = notAfter;
  }
  if (earliest === undefined) throw new SyntaxError("it holds no certificate");
  return earliest;
}

/** Decodes Base64 into a string with one character for each byte. */
export function decodeBase64(text) {
  try {
    return atob(text);
  } catch {
    throw new SyntaxError("it is not valid Base64");
  }
}

/** The bytes between each pair of markers. */
function* blocks(pem) {
  for (let end = 0; ;) {
    const begin = pem.indexOf(BEGIN, end);
    if (begin < 0) return;
    end = pem.indexOf(END, begin);
    if (end < 0) throw new SyntaxError("the end of a certificate is missing");
    yield decodeBase64(pem.slice(begin + BEGIN.length, end));
  }
}

function within(what, read) {
  try {
    return read();
  } catch (error) {
    throw new SyntaxError(`${what}: ${error.message}`);
  }
}

/** Returns the field `notAfter` of a certificate in DER (RFC 5280, section 4.1). */
function expiryOf(der) {
  const certificate = new Reader(der).enter(SEQUENCE);
  const signed = certificate.enter(SEQUENCE);
  signed.skipIf(EXPLICIT_0);
  signed.enter(INTEGER); // the serial number
  signed.enter(SEQUENCE); // the algorithm of the signature
  signed.enter(SEQUENCE); // the issuer
  const validity = signed.enter(SEQUENCE);
  validity.time();
  return validity.time();
}

/** Reads elements of DER one after another. */
class Reader {
  #bytes;
  #at;
  #end;

  constructor(bytes, at = 0, end = bytes.length) {
    [this.#bytes, this.#at, this.#end] = [bytes, at, end];
  }

  /** Moves past the next element, and returns a reader of its content. */
  enter(...tags) {
    const tag = this.#byte();
    if (!tags.includes(tag)) throw new SyntaxError(`the element ${tag} is not expected`);
    const length = this.#length();
    const begin = this.#at;
    if (length > this.#end - begin) throw new SyntaxError("an element is cut off");
    this.#at += length;
    return new Reader(this.#bytes, begin, this.#at);
  }

  skipIf(tag) {
    if (this.#bytes.charCodeAt(this.#at) === tag) this.enter(tag);
  }

  time() {
    const isShort = this.#bytes.charCodeAt(this.#at) === UTC_TIME;
    const content = this.enter(UTC_TIME, GENERALIZED_TIME);
    const text = this.#bytes.slice(content.#at, content.#end);
    // A year of two digits is between 1950 and 2049.
    const whole = isShort ? (text < "50" ? "20" : "19") + text : text;
    const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(whole);
    if (parts === null) throw new SyntaxError("a time is malformed");
    const [year, month, day, hour, minute, second] = parts.slice(1).map(Number);
    const time = new Date(0);
    // `Date.UTC` would take the years 0 to 99 as 1900 to 1999.
    time.setUTCFullYear(year, month - 1, day);
    time.setUTCHours(hour, minute, second);
    return time;
  }

  #byte() {
    if (this.#at >= this.#end) throw new SyntaxError("an element is missing");
    return this.#bytes.charCodeAt(this.#at++);
  }

  #length() {
    const first = this.#byte();
    if (first < 0x80) return first;
    const count = first & 0x7f;
    if (count === 0 || count > 4) throw new SyntaxError("the length of an element is malformed");
    let length = 0;
    for (let i = 0; i < count; i++) length = length * 256 + this.#byte();
    return length;
  }
}
