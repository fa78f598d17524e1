/** Which files are pictures, and what a few bytes look like. Pure; called by commands/editor.ts and views/media.ts. */

const pictures: Record<string, string> = {
  png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", svg: "image/svg+xml", ico: "image/x-icon", avif: "image/avif", bmp: "image/bmp",
};
export const pictureBytes = 20 * 1024 * 1024;
/** Of a file that is no text, so much is shown. */
export const hexBytes = 16 * 1024;
const perRow = 16;

/** The media type of a picture by its name; empty for everything else. */
export function pictureType(name: string): string {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? pictures[name.slice(dot + 1).toLowerCase()] ?? "" : "";
}

export function isSvg(name: string): boolean {
  return pictureType(name) === "image/svg+xml";
}

/** "00000010  48 65 6c …  Hel…", sixteen bytes a row. */
export function hexRows(bytes: Uint8Array): string[] {
  const rows: string[] = [];
  for (let at = 0; at < bytes.length; at += perRow) {
    const row = [...bytes.subarray(at, at + perRow)];
    const hex = row.map((byte, index) => (index === 8 ? " " : "") + byte.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    rows.push(`${at.toString(16).padStart(8, "0")}  ${hex.padEnd(perRow * 3)}  ${text}`);
  }
  return rows;
}

/** The beginning of a text without the part of a line, or of a letter, that was cut at its end. */
export function wholeLines(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const end = bytes.lastIndexOf(10) + 1;
  if (end > 0) return bytes.subarray(0, end);
  let last = bytes.length;
  while (last > 0 && (bytes[last - 1]! & 0xc0) === 0x80) last -= 1;
  return bytes.subarray(0, Math.max(0, last - 1));
}
