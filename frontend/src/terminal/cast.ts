/**
 * An asciicast v2 file read for the player. Pure; called by player.ts.
 *
 * A line that is none is left out: a recording that is still being written may end in the middle of one.
 */

export interface CastEvent { at: number; kind: "o" | "r"; text: string }
export interface Cast { cols: number; rows: number; events: CastEvent[]; seconds: number }

/** A pause longer than this is played as this long: who replays wants to see what happened. */
export const longestPause = 2;

export function readCast(text: string): Cast {
  const lines = text.split("\n");
  const head = parsed(lines[0] ?? "") as { version?: number; width?: number; height?: number } | null;
  if (head?.version !== 2) throw new Error("This is no asciicast v2 recording.");
  const events = shortened(lines.slice(1).map(eventOf).filter((event) => event !== null));
  return { cols: side(head.width, 80), rows: side(head.height, 24), events, seconds: events.at(-1)?.at ?? 0 };
}

export function sizeOf(event: CastEvent): { cols: number; rows: number } {
  const [cols, rows] = event.text.split("x").map(Number);
  return { cols: side(cols, 80), rows: side(rows, 24) };
}

/** The first event that is later than `at`. */
export function indexAfter(events: CastEvent[], at: number): number {
  let low = 0, high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle]!.at <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

function eventOf(line: string): CastEvent | null {
  const value = parsed(line);
  if (!Array.isArray(value)) return null;
  const [at, kind, text] = value as unknown[];
  return typeof at === "number" && (kind === "o" || kind === "r") && typeof text === "string" ? { at, kind, text } : null;
}

function shortened(events: CastEvent[]): CastEvent[] {
  let before = 0, shown = 0;
  return events.map((event) => {
    shown += Math.min(longestPause, Math.max(0, event.at - before));
    before = event.at;
    return { ...event, at: shown };
  });
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

function side(value: number | undefined, fallback: number): number {
  return value !== undefined && Number.isInteger(value) && value > 0 && value <= 1000 ? value : fallback;
}
