/**
 * The frames of a terminal's socket: first byte the type, then bytes or JSON (public contract, "Live"). Pure.
 *
 * Output is never turned into text here: a character may be cut anywhere between two frames, and xterm.js puts it
 * together again.
 */

import type { Outcome } from "../state/types";

export const FrameType = { input: 0, output: 1, resize: 2, outcome: 3, flow: 4, lease: 5 } as const;

export interface Flow { offset?: number }
/** Who holds the keyboard (`you`: this very connection), who asks for it, and what all who watch are to know. */
export interface Lease {
  holder?: string | null;
  holder_type?: string | null;
  you?: boolean;
  may_take?: boolean;
  asks?: string[];
  asked?: boolean;
  declined_by?: string | null;
  present?: string[];
  size?: { cols: number; rows: number };
  recording?: { by: string; since: string } | null;
}

export type Frame =
  | { type: "output"; data: Uint8Array }
  | { type: "outcome"; outcome: Outcome | null }
  | { type: "flow"; flow: Flow }
  | { type: "lease"; lease: Lease }
  | { type: "unknown" };

export function readFrame(buffer: ArrayBuffer): Frame {
  const all = new Uint8Array(buffer);
  const data = all.subarray(1);
  switch (all[0]) {
    case FrameType.output:
      return { type: "output", data };
    case FrameType.outcome: {
      const said = json<{ outcome?: Outcome } & Partial<Outcome>>(data);
      return { type: "outcome", outcome: (said?.outcome ?? (said?.kind ? (said as Outcome) : null)) };
    }
    case FrameType.flow:
      return { type: "flow", flow: json<Flow>(data) ?? {} };
    case FrameType.lease:
      return { type: "lease", lease: json<Lease>(data) ?? {} };
    default:
      return { type: "unknown" };
  }
}

function json<T>(data: Uint8Array): T | null {
  try {
    return JSON.parse(new TextDecoder().decode(data)) as T;
  } catch {
    return null;
  }
}

export function inputFrame(data: Uint8Array): Uint8Array<ArrayBuffer> {
  return framed(FrameType.input, data);
}

export function resizeFrame(cols: number, rows: number): Uint8Array<ArrayBuffer> {
  return jsonFrame(FrameType.resize, { cols, rows });
}

export function ackFrame(offset: number): Uint8Array<ArrayBuffer> {
  return jsonFrame(FrameType.flow, { ack: offset });
}

/** What is said about the keyboard: take it, give it back; ask for it; as its holder give it to, or decline, who asks. */
export type LeaseWord = { take: true } | { release: true } | { ask: true } | { give: string } | { decline: string };

export function leaseFrame(word: LeaseWord): Uint8Array<ArrayBuffer> {
  return jsonFrame(FrameType.lease, word);
}

function jsonFrame(type: number, value: unknown): Uint8Array<ArrayBuffer> {
  return framed(type, new TextEncoder().encode(JSON.stringify(value)));
}

function framed(type: number, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(data.length + 1);
  frame[0] = type;
  frame.set(data, 1);
  return frame;
}

/** What xterm.js calls binary: a string whose characters are bytes (mouse reports). */
export function bytesOf(binary: string): Uint8Array {
  return Uint8Array.from(binary, (char) => char.charCodeAt(0) & 0xff);
}
