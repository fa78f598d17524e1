/** What an exec said, in stretches of bounded size, over REST. Called by commands/activity.ts; no state. */

import type { OutputStretch } from "../state/types";
import { ask } from "./client";

type Stream = OutputStretch["stream"];

const outputUrl = (workspace: string, exec: string, stream: Stream, offset: number): string =>
  `/api/v1/workspaces/${workspace}/execs/${exec}/output?stream=${stream}&offset=${offset}`;

/** The last `most` bytes that are kept. */
export async function readEnd(workspace: string, exec: string, stream: Stream, most: number): Promise<OutputStretch> {
  const whole = await begin(workspace, exec, stream, 0);
  if (whole.end - whole.start <= most) return { stream, start: whole.start, ...await taken(whole, most) };
  await whole.stop();
  const last = await begin(workspace, exec, stream, whole.end - most);
  return { stream, start: whole.start, ...await taken(last, most) };
}

/** The stretch with up to `most` bytes more before it. */
export async function withEarlier(workspace: string, exec: string, one: OutputStretch, most: number): Promise<OutputStretch> {
  const from = Math.max(one.start, one.from - most);
  const part = await taken(await begin(workspace, exec, one.stream, from), one.from - from);
  if (part.to < one.from) return one;
  return { ...one, from: part.from, bytes: joined(part.bytes, one.bytes) };
}

/** The stretch with what came since, up to `most` bytes. */
export async function withLater(workspace: string, exec: string, one: OutputStretch, most: number): Promise<OutputStretch> {
  const part = await taken(await begin(workspace, exec, one.stream, one.to), most);
  return { ...one, to: part.to, bytes: joined(one.bytes, part.bytes) };
}

interface Answer { start: number; end: number; body: ReadableStreamDefaultReader<Uint8Array> | null; stop: () => Promise<void> }

async function begin(workspace: string, exec: string, stream: Stream, offset: number): Promise<Answer> {
  const response = await ask(outputUrl(workspace, exec, stream, offset));
  const end = Number(response.headers.get("Berth-Next-Offset") ?? offset);
  const body = response.body?.getReader() ?? null;
  return { start: Number(response.headers.get("Berth-Offset") ?? offset), end, body, stop: async () => { await body?.cancel(); } };
}

/** Reads no further than asked for: the rest of a long answer is not waited for. */
async function taken(answer: Answer, most: number): Promise<{ from: number; to: number; bytes: Uint8Array }> {
  let bytes = new Uint8Array();
  while (answer.body && bytes.length < most) {
    const { done, value } = await answer.body.read();
    if (done) break;
    bytes = joined(bytes, value);
  }
  await answer.stop();
  const kept = bytes.subarray(0, most);
  return { from: answer.start, to: answer.start + kept.length, bytes: kept };
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
