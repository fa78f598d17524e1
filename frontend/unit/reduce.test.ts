/** The one reduce: what each fact makes of the State. */

import { describe, expect, it } from "vitest";
import type { Action } from "../src/state/actions";
import { keptEvents } from "../src/state/activity";
import { emptyPage, initialState } from "../src/state/initial";
import { fileSource } from "../src/state/files";
import { reduce } from "../src/state/reduce";
import type { BerthEvent, Exec, FileEntry, State, Workspace } from "../src/state/types";

const start = (page: Partial<State["page"]> = {}): State => initialState({ ...emptyPage, ...page }, 0, "system");
const after = (state: State, ...actions: Action[]): State => actions.reduce(reduce, state);

const workspace = (id: string, state: Workspace["state"] = "running"): Workspace => ({
  id, name: id, state, state_reason: null, owner: "ada", cpus: 1, memory_mib: 512, disk_gib: 10, disk_used_bytes: null,
  created_at: "2026-01-01T00:00:00Z", last_activity_at: null, last_activity_kind: null, accelerator: "tcg",
});
const event = (seq: number): BerthEvent =>
  ({ seq, at: "2026-01-01T00:00:00Z", kind: "workspace.running", actor: { type: "system", name: "system" }, data: {} });
const exec = (id: string): Exec => ({
  id, command: ["/bin/bash", "-l"], state: "running", outcome: null, tty: { cols: 80, rows: 24 }, started_at: null,
  ended_at: null, duration_ms: null,
});

describe("workspaces", () => {
  it("never shows the trash in the list", () => {
    const state = after(start(), { type: "workspaces.loaded", workspaces: [workspace("a"), workspace("b", "deleted")] });
    expect(Object.keys(state.workspaces)).toEqual(["a"]);
  });

  it("takes a workspace off the home page the moment it is deleted", () => {
    const state = after(start(), { type: "workspace.changed", workspace: workspace("a") },
      { type: "workspace.changed", workspace: workspace("a", "deleted") });
    expect(state.workspaces).toEqual({});
  });

  it("keeps a deleted workspace on its own page, where its state is said", () => {
    const state = after(start({ page: "workspace", workspace: "a" }), { type: "workspace.changed", workspace: workspace("a", "deleted") });
    expect(state.workspaces["a"]?.state).toBe("deleted");
  });

  it("calls the page's own workspace missing when it is gone, and only that one", () => {
    const page = start({ page: "workspace", workspace: "a" });
    expect(after(page, { type: "workspace.gone", id: "a" }).missing).toBe(true);
    expect(after(page, { type: "workspace.gone", id: "b" }).missing).toBe(false);
  });

  it("remembers a command under way until it is answered", () => {
    const sent = after(start(), { type: "command.sent", id: "a", command: "start" });
    expect(sent.pending).toEqual({ a: "start" });
    expect(after(sent, { type: "command.answered", id: "a" }).pending).toEqual({});
  });
});

describe("events", () => {
  it("counts an event that is replayed once", () => {
    const state = after(start(), { type: "events.received", events: [event(1), event(2)] }, { type: "events.received", events: [event(2), event(3)] });
    expect(state.events.map((one) => one.seq)).toEqual([1, 2, 3]);
    expect(state.lastSeq).toBe(3);
  });

  it("holds a bounded list and still knows the last number", () => {
    const many = Array.from({ length: keptEvents + 40 }, (_, at) => event(at + 1));
    const state = after(start(), { type: "events.received", events: many });
    expect(state.events).toHaveLength(keptEvents);
    expect(state.events.at(-1)?.seq).toBe(keptEvents + 40);
  });

  it("is the very same state when nothing new came, so that nothing is drawn", () => {
    const state = after(start(), { type: "events.received", events: [event(1)] });
    expect(after(state, { type: "events.received", events: [event(1)] })).toBe(state);
  });

  it("drops the output of a step that was folded while it was read", () => {
    const state = after(start(), { type: "step.expanded", key: "e" }, { type: "step.folded", key: "e" }, { type: "step.read", key: "e", detail: { kind: "failed", problem: "" } });
    expect(state.expanded).toEqual({});
  });
});

describe("files", () => {
  const entry = (path: string, type = "file"): FileEntry => ({ path, type, size: 1 });

  it("lists folders first and numbers as people count", () => {
    const entries = [entry("/h/file10"), entry("/h/file2"), entry("/h/zoo", "directory")];
    const state = after(start(), { type: "folder.listed", path: "/h", entries, more: false });
    expect(state.tree["/h"]?.entries.map((one) => one.path)).toEqual(["/h/zoo", "/h/file2", "/h/file10"]);
  });

  it("keeps a folder open when it is read again", () => {
    const state = after(start(), { type: "tree.rooted", path: "/h" }, { type: "folder.listing", path: "/h" },
      { type: "folder.listed", path: "/h", entries: [], more: false });
    expect(state.tree["/h"]).toMatchObject({ open: true, status: "listed" });
  });

  it("opens a file once and brings it to the front every time", () => {
    const state = after(start(), { type: "tab.opened", path: "/a" }, { type: "tab.opened", path: "/b" }, { type: "tab.opened", path: "/a" });
    expect(state.tabs.map((tab) => tab.path)).toEqual(["/a", "/b"]);
    expect(state.activePath).toBe("/a");
  });

  it("shows the neighbour when the tab in front is closed, and leaves the front alone otherwise", () => {
    const open = after(start(), { type: "tab.opened", path: "/a" }, { type: "tab.opened", path: "/b" }, { type: "tab.opened", path: "/c" });
    expect(after(open, { type: "tab.closed", path: "/c" }).activePath).toBe("/b");
    expect(after(open, { type: "tab.closed", path: "/a" }).activePath).toBe("/c");
    expect(after(start(), { type: "tab.opened", path: "/a" }, { type: "tab.closed", path: "/a" }).activePath).toBe("");
  });

  it("follows a rename with the tab in front", () => {
    const state = after(start(), { type: "tab.opened", path: "/a" }, { type: "tab.moved", path: "/a", to: "/z" });
    expect(state.activePath).toBe("/z");
    expect(state.tabs[0]?.path).toBe("/z");
  });
});

describe("terminals", () => {
  it("finds shells again without doubling one that is already there", () => {
    const state = after(start(), { type: "terminal.opened", exec: exec("one") }, { type: "terminals.known", execs: [exec("one"), exec("two")] });
    expect(state.terminals.map((tab) => tab.id)).toEqual(["one", "two"]);
    expect(state.activeTerminal).toBe("one");
  });

  it("calls a login shell a shell", () => {
    expect(after(start(), { type: "terminal.opened", exec: exec("one") }).terminals[0]?.title).toBe("shell");
  });

  it("says who holds the keyboard and whether it is this page", () => {
    const state = after(start(), { type: "terminal.opened", exec: exec("one") }, { type: "terminal.lease", id: "one", lease: { holder: "bob", mine: false } });
    expect(state.terminals[0]).toMatchObject({ holder: "bob", mine: false });
  });

  it("is ready to open again after a refusal", () => {
    expect(after(start(), { type: "terminal.opening" }, { type: "terminal.refused" }).opening).toBe(false);
  });
});

describe("page", () => {
  it("says the same problem once", () => {
    const notice = (id: number): Action => ({ type: "notice.raised", notice: { id, tone: "error", text: "same" } });
    expect(after(start(), notice(1), notice(2)).notices.map((one) => one.id)).toEqual([2]);
  });

  it("forgets a dialog's problem with the dialog", () => {
    const state = after(start(), { type: "dialog.opened", dialog: { kind: "create" } }, { type: "dialog.failed", problem: "taken" }, { type: "dialog.closed" });
    expect(state.dialog).toBeNull();
    expect(state.dialogProblem).toBe("");
  });
});

describe("files", () => {
  it("are read in what runs, on the disk of what sleeps, and nowhere on the way between", () => {
    const at = (state: Workspace["state"]): string | null =>
      fileSource(after(start({ page: "workspace", workspace: "a" }), { type: "workspace.changed", workspace: workspace("a", state) }));
    expect([at("running"), at("standby"), at("stopped"), at("failed")]).toEqual(["live", "disk", "disk", "disk"]);
    expect([at("waking"), at("parking"), at("stopping"), at("restoring"), at("deleted")]).toEqual([null, null, null, null, null]);
    expect(fileSource(start({ page: "workspace", workspace: "a" }))).toBeNull();
  });
});
