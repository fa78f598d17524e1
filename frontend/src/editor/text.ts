/**
 * Bytes into text and back, exactly. Pure; called by editor/session.ts.
 *
 * What cannot make the round trip byte for byte is never offered for editing: NUL bytes are refused (binary), bytes that
 * are no UTF-8 are shown read-only. A byte order mark is kept aside; CRLF stays CRLF; a file that mixes line ends keeps
 * each of them, with the carriage returns visible.
 */

export const editableBytes = 2 * 1024 * 1024;

export interface Decoded {
  text: string;
  /** What separates lines; everything else that looks like one stays in its line. */
  separator: "\n" | "\r\n";
  bom: boolean;
  readOnly: string;
}

export function decodeFile(bytes: Uint8Array): Decoded | null {
  if (bytes.includes(0)) return null;
  const bom = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  const body = bom ? bytes.subarray(3) : bytes;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    return { text, separator: separatorOf(text), bom, readOnly: "" };
  } catch {
    const text = new TextDecoder("windows-1252").decode(bytes);
    const readOnly = "This file is not UTF-8. It is shown read-only, because saving it here would change its bytes.";
    return { text, separator: separatorOf(text), bom: false, readOnly };
  }
}

export function encodeFile(text: string, bom: boolean): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(text);
  if (!bom) return body;
  const all = new Uint8Array(body.length + 3);
  all.set([0xef, 0xbb, 0xbf]);
  all.set(body, 3);
  return all;
}

/** CRLF only where every line ends so; a lone one among others must not be lost or multiplied. */
function separatorOf(text: string): "\n" | "\r\n" {
  const ends = text.split("\n").length - 1;
  const pairs = text.split("\r\n").length - 1;
  return pairs > 0 && pairs === ends ? "\r\n" : "\n";
}
