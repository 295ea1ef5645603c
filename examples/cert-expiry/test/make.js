// Makes certificates with only the fields that the reader needs.

/** An element of DER; the content is a string with one character for each byte. */
function element(tag, ...parts) {
  const content = parts.join("");
  const length = content.length < 0x80 ? [content.length] : [0x82, content.length >> 8, content.length & 0xff];
  return String.fromCharCode(tag, ...length) + content;
}

/** Encodes bytes as a block of PEM. */
export function pem(bytes) {
  const lines = btoa(bytes).replace(/.{64}/g, "$&\n");
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

/** A certificate in PEM that expires at this time, as DER writes it. */
export function certificate(notAfter, { version = true } = {}) {
  const time = (text) => element(text.length === 15 ? 0x18 : 0x17, text);
  const validity = element(0x30, time("200101000000Z"), time(notAfter));
  const serial = element(0x02, "\x01");
  const issuer = element(0x30, element(0x0c, "x".repeat(300)));
  const signed = element(0x30, version ? element(0xa0, element(0x02, "\x02")) : "", serial, element(0x30), issuer, validity);
  return pem(element(0x30, signed));
}
