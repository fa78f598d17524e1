/**
 * Guest paths on their way into a URL. Pure; called by api/files.ts.
 *
 * A name in the guest is bytes. JSON carries bytes that are not UTF-8 as lone surrogates U+DC80..U+DCFF (as Python does),
 * the URL carries them percent-encoded; encodeURIComponent alone would throw on them.
 */

export function encodePath(path: string): string {
  let out = "";
  for (const char of path) {
    const code = char.codePointAt(0)!;
    if (code >= 0xdc80 && code <= 0xdcff) out += `%${(code - 0xdc00).toString(16).toUpperCase()}`;
    else if (code >= 0xd800 && code <= 0xdfff) out += "%EF%BF%BD";
    else out += encodeURIComponent(char);
  }
  return out;
}

/** The other way: `path_encoded` of an answer into the form this page keeps, bytes that are no UTF-8 included. */
export function decodePath(encoded: string): string {
  const bytes = percentDecoded(encoded);
  const whole = decoded(bytes);
  if (whole !== null) return whole;
  let out = "";
  for (let at = 0; at < bytes.length;) {
    const size = sequenceLength(bytes[at]!);
    const char = decoded(bytes.subarray(at, at + size));
    out += char ?? String.fromCharCode(0xdc00 + bytes[at]!);
    at += char === null ? 1 : size;
  }
  return out;
}

function decoded(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

function sequenceLength(lead: number): number {
  if (lead < 0xc0) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}

function percentDecoded(encoded: string): Uint8Array {
  const plain = new TextEncoder();
  const parts = encoded.split(/(%[0-9a-fA-F]{2})/).filter(Boolean);
  return Uint8Array.from(parts.flatMap((part) =>
    /^%[0-9a-fA-F]{2}$/.test(part) ? [parseInt(part.slice(1), 16)] : [...plain.encode(part)]));
}

export function joinPath(parent: string, name: string): string {
  return parent.endsWith("/") ? parent + name : `${parent}/${name}`;
}
