/** Ports with their shares, and the figures of the header. */

import { describe, expect, it } from "vitest";
import type { Action } from "../src/state/actions";
import { emptyPage, initialState } from "../src/state/initial";
import { cpuLine, memoryLine } from "../src/state/metrics";
import { portRows, previewUrl } from "../src/state/ports";
import { reduce } from "../src/state/reduce";
import type { Figures, Metrics, Port, Share, State } from "../src/state/types";

const start = (): State => initialState({ ...emptyPage, page: "workspace" }, 0, "system");
const after = (state: State, ...actions: Action[]): State => actions.reduce(reduce, state);
const port = (number: number, address = "127.0.0.1"): Port => ({ port: number, address, reachable: true, process: "node", pid: 4, user: "user" });
const share = (number: number, change: Partial<Share> = {}): Share =>
  ({ port: number, visibility: "private", url: "http://p/", link: null, expires_at: null, actor: { type: "user", name: "ada" }, ...change });

describe("ports", () => {
  it("are a row each, with all that listens there and the share, and so is a share where nothing listens", () => {
    const state = after(start(), { type: "ports.changed", change: { ports: [port(8000), port(80), port(80, "::1")], shares: [share(9000)] } });
    expect(portRows(state.ports).map((row) => [row.port, row.listens.length, Boolean(row.share)])).toEqual([[80, 2, false], [8000, 1, false], [9000, 0, true]]);
  });
  it("draw nothing when they are as they were", () => {
    const state = after(start(), { type: "ports.changed", change: { ports: [port(1)] } });
    expect(after(state, { type: "ports.changed", change: { ports: [port(1)] } })).toBe(state);
  });
  it("keep a link's secret until the port is shared anew without one", () => {
    const state = after(start(), { type: "share.made", share: share(1, { link: "http://p/?s" }) });
    expect(state.ports.links).toEqual({ 1: "http://p/?s" });
    expect(after(state, { type: "share.made", share: share(1, { visibility: "public" }) }).ports).toMatchObject({ links: {}, shares: [{ visibility: "public" }] });
  });
  it("are found by the workspace's own template", () => expect(previewUrl("http://{port}--w.x/", 80)).toBe("http://80--w.x/"));
});

describe("figures", () => {
  const figures = (minute: number, cpu: number | null): Figures =>
    ({ at: new Date(Date.UTC(2026, 0, 1, 12, minute)).toISOString(), cpu_percent: cpu, memory_used_bytes: 256 * 1024 ** 2, memory_total_bytes: 512 * 1024 ** 2 });
  const metrics = (now: Figures | null, ...history: Figures[]): Metrics => ({ now, reason: null, interval_s: 30, history });

  it("are said in words, for who does not see the line", () => {
    expect(cpuLine(metrics(figures(3, 12.4), figures(2, 3), figures(1, 70))).words).toBe("Processor 12 %, last hour 3 % to 70 %");
    expect(memoryLine(metrics(figures(3, 1))).words).toBe("Memory 256 MiB of 512 MiB, last hour 256 MiB to 256 MiB");
    expect(cpuLine(metrics(null)).words).toBe("Processor not in use, no figures of the last hour");
  });
  it("make a line with a hole where it slept, and none where nothing was measured", () => {
    const { path } = cpuLine(metrics(null, figures(0, 0), figures(1, 100), figures(30, 50), figures(31, null)));
    expect(path.match(/[ML]/g)).toEqual(["M", "L", "M"]);
    expect(path).toMatch(/^M33\.8 18\.0L35\.0 2\.0M/);
  });
  it("leave quiet at the bottom, and let four busy processors fill the height", () => {
    expect(cpuLine(metrics(figures(0, 2))).path).toMatch(/ 17\.7$/);
    expect(cpuLine(metrics(figures(0, 400))).path).toMatch(/ 2\.0$/);
  });
});
