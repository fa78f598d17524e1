/** Terminals without a screen: who shares a tab, what is pasted, where links lead, what a recording holds. */

import { describe, expect, it } from "vitest";
import type { Action } from "../src/state/actions";
import { emptyPage, initialState } from "../src/state/initial";
import { leavesOf, readGroups, shareAt } from "../src/state/panes";
import { reduce } from "../src/state/reduce";
import type { Exec, State } from "../src/state/types";
import { indexAfter, longestPause, readCast, sizeOf } from "../src/terminal/cast";
import { guestPort, previewOf } from "../src/terminal/links";
import { linesIn, mustAsk, pasted } from "../src/terminal/paste";
import { pieceBytes, TypingQueue } from "../src/terminal/typing";

const start = (): State => initialState({ ...emptyPage, user: "ann" }, 0, "system");
const after = (state: State, ...actions: Action[]): State => actions.reduce(reduce, state);
const exec = (id: string, more: Partial<Exec> = {}): Exec => ({
  id, command: ["/bin/bash", "-l"], state: "running", outcome: null, tty: { cols: 80, rows: 24 }, started_at: null, ended_at: null,
  duration_ms: null, actor: { type: "user", name: "ann" }, ...more,
});
const shapes = (state: State): unknown[] => state.terminalGroups.map((group) => group.tree);

describe("terminals that share a tab", () => {
  const three = after(start(), { type: "terminal.opened", exec: exec("a") },
    { type: "terminal.opened", exec: exec("b"), beside: "a", way: "row" }, { type: "terminal.opened", exec: exec("c"), beside: "b", way: "column" });

  it("are split side by side and one over the other, and the newest is in front", () => {
    expect(shapes(three)).toEqual([{ way: "row", share: 0.5, a: "a", b: { way: "column", share: 0.5, a: "b", b: "c" } }]);
    expect(three.activeTerminal).toBe("c");
  });

  it("close one by one, the neighbour taking the place and the front", () => {
    const two = after(three, { type: "terminal.closed", id: "b" });
    expect(shapes(two)).toEqual([{ way: "row", share: 0.5, a: "a", b: "c" }]);
    const one = after(two, { type: "terminal.closed", id: "c" });
    expect([shapes(one), one.activeTerminal]).toEqual([["a"], "a"]);
    expect(after(one, { type: "terminal.closed", id: "a" })).toMatchObject({ terminalGroups: [], activeTerminal: "" });
  });

  it("share their place as the line between them is moved, and none vanishes", () => {
    const group = three.terminalGroups[0]!.id;
    const moved = after(three, { type: "panes.shared", group, path: "b", share: 0.7 }, { type: "panes.shared", group, path: "", share: 0.01 });
    expect([shareAt(moved.terminalGroups[0]!.tree, ""), shareAt(moved.terminalGroups[0]!.tree, "b")]).toEqual([0.15, 0.7]);
    expect(shapes(moved)).toEqual([{ way: "row", share: 0.15, a: "a", b: { way: "column", share: 0.7, a: "b", b: "c" } }]);
  });

  it("stand again where a browser remembers them, without those that are gone", () => {
    const groups = readGroups(JSON.parse(JSON.stringify(three.terminalGroups)));
    const again = after(start(), { type: "terminals.known", execs: [exec("a"), exec("c"), exec("d")], groups, names: { c: "build" } });
    expect(shapes(again)).toEqual([{ way: "row", share: 0.5, a: "a", b: "c" }, "d"]);
    expect(again.terminals.find((tab) => tab.id === "c")?.name).toBe("build");
  });

  it("are not read from what is no memory", () => {
    expect(readGroups("x")).toEqual([]);
    expect(readGroups([null, { tree: 7 }, { tree: { way: "up", a: "a", b: "b" } }, { tree: { way: "row", a: "a", b: null } }]).map((one) => leavesOf(one.tree))).toEqual([["a"]]);
  });

  it("keep their place when a restore makes another exec of one", () => {
    const back = after(three, { type: "terminals.known", execs: [exec("b2", { continued_from: "b" })] }, { type: "terminal.closed", id: "b" });
    expect(leavesOf(back.terminalGroups[0]!.tree)).toEqual(["a", "b2", "c"]);
  });

  it("are never in two places, even when the list of what runs was quicker than the answer", () => {
    const twice = after(three, { type: "terminals.known", execs: [exec("d")] }, { type: "terminal.opened", exec: exec("d"), beside: "a", way: "row" });
    expect(twice.terminalGroups.flatMap((group) => leavesOf(group.tree)).sort()).toEqual(["a", "b", "c", "d"]);
    expect(twice.terminals.length).toBe(4);
  });

  it("say who started them when it was somebody else, a program of one's own included", () => {
    const state = after(start(), { type: "terminals.known", execs: [exec("a"), exec("b", { actor: { type: "user", name: "bob" } }), exec("c", { actor: { type: "token", name: "ann" } })] });
    expect(state.terminals.map((tab) => tab.starter)).toEqual(["", "bob", "ann"]);
  });

  it("ring on their tab until it is looked at", () => {
    const rung = after(three, { type: "terminal.rang", id: "a" }, { type: "terminal.rang", id: "c" });
    expect(rung.terminals.map((tab) => tab.rang)).toEqual([true, false, false]);
    expect(after(rung, { type: "terminal.activated", id: "a" }).terminals[0]?.rang).toBe(false);
  });
});

describe("what is pasted", () => {
  it("is bracketed for a shell that knows it, and cannot end its own brackets", () => {
    expect(pasted("echo a\nrm -rf /\n", true)).toBe("\u001b[200~echo a\rrm -rf /\r\u001b[201~");
    expect(pasted("x\u001b[201~\ny\u0003\u009b", true)).toBe("\u001b[200~x[201~\ry\u001b[201~");
    expect(pasted("a\tb\r\nc \u{1f600}", false)).toBe("a\tb\rc \u{1f600}");
  });

  it("asks before several lines are entered at once, not for one that ends with Enter", () => {
    expect([linesIn("one\n"), linesIn("one\r\ntwo"), linesIn("a\n\nb\n\n")]).toEqual([1, 2, 3]);
    expect([mustAsk("one\n", false), mustAsk("one\ntwo", false), mustAsk("one\ntwo", true)]).toEqual([false, true, false]);
  });
});

describe("what is typed behind a large paste", () => {
  it("keeps its order, waits for the connection, and an interrupt drops what was not sent", async () => {
    const sent: Uint8Array[] = [];
    let buffered = 0;
    const queue = new TypingQueue((data) => { sent.push(data); buffered += data.length; return true; }, () => buffered);
    queue.add(new Uint8Array(40 * pieceBytes).fill(97));
    expect(sent.length).toBeLessThan(12);
    expect(sent.every((piece) => piece.length <= pieceBytes)).toBe(true);
    buffered = 0;
    queue.add(Uint8Array.of(3));
    expect([...sent.at(-1)!]).toEqual([3]);
    const count = sent.length;
    await new Promise((done) => setTimeout(done, 60));
    expect(sent.length).toBe(count);
  });

  it("is not kept for a connection that is not there", () => {
    const sent: Uint8Array[] = [];
    let open = false;
    const queue = new TypingQueue((data) => open && Boolean(sent.push(data)), () => 0);
    queue.add(Uint8Array.of(13));
    open = true;
    queue.add(Uint8Array.of(97));
    expect(sent.map((data) => [...data])).toEqual([[97]]);
  });
});

describe("where a link leads", () => {
  it("is the guest's own port for the names of the machine itself, whatever port it is", () => {
    expect([guestPort("http://localhost:5173/x"), guestPort("http://127.0.0.1"), guestPort("https://[::1]:8443/"), guestPort("http://0.0.0.0:8000")]).toEqual([5173, 80, 8443, 8000]);
    expect([guestPort("https://localhost.example.org:80/"), guestPort("http://example.org"), guestPort("not one")]).toEqual([null, null, null]);
  });

  it("shows the port's preview with the rest of the address kept", () => {
    expect(previewOf("http://localhost:5173/a?b=1#c", "http://{port}--abc.preview.localhost:8000/")).toBe("http://5173--abc.preview.localhost:8000/a?b=1#c");
    expect([previewOf("http://localhost:1/", null), previewOf("http://example.org/", "http://{port}--abc/")]).toEqual([null, null]);
  });
});

describe("a recording", () => {
  const file = ['{"version":2,"width":100,"height":30}', '[0.5,"o","a"]', '[60.5,"o","\\u2500"]', '[60.6,"r","70x21"]', '[60.6,"i","x"]', "[61,"].join("\n");

  it("is read with long pauses made short, lines that are none left out", () => {
    const cast = readCast(file);
    expect([cast.cols, cast.rows]).toEqual([100, 30]);
    expect(cast.events.map((event) => [event.kind, event.text])).toEqual([["o", "a"], ["o", "\u2500"], ["r", "70x21"]]);
    expect(cast.events[1]!.at).toBeCloseTo(0.5 + longestPause);
    expect(cast.seconds).toBeCloseTo(0.6 + longestPause);
    expect(sizeOf(cast.events[2]!)).toEqual({ cols: 70, rows: 21 });
  });

  it("is found at any moment", () => {
    const { events } = readCast(file);
    expect([0, 0.5, 2.4, 2.5, 9].map((at) => indexAfter(events, at))).toEqual([0, 1, 1, 2, 3]);
  });

  it("is refused when it is none", () => {
    expect(() => readCast('{"version":1}')).toThrow("no asciicast");
    expect(() => readCast("")).toThrow("no asciicast");
  });
});
