/**
 * Where an address in a terminal leads: outside, or to a port of the workspace itself. Pure; called by session.ts and
 * the dialog that asks.
 */

const local = new Set(["localhost", "127.0.0.1", "0.0.0.0", "[::1]", "[::]"]);

/** A program says "http://localhost:5173/": that is the guest's own port, not this browser's machine. */
export function guestPort(address: string): number | null {
  const url = URL.canParse(address) ? new URL(address) : null;
  if (!url || !local.has(url.hostname)) return null;
  return Number(url.port) || (url.protocol === "https:" ? 443 : 80);
}

/** The same address as the preview shows it; null where there are no previews. */
export function previewOf(address: string, template: string | null | undefined): string | null {
  const port = guestPort(address);
  if (port === null || !template) return null;
  const url = new URL(address);
  return template.replace("{port}", String(port)).replace(/\/$/, "") + url.pathname + url.search + url.hash;
}
