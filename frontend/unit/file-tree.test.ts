/** The file tree as rows, and what files are called and shown as. */

import { describe, expect, it } from "vitest";
import { hexRows, pictureType, wholeLines } from "../src/editor/kinds";
import type { Action } from "../src/state/actions";
import { emptyPage, initialState } from "../src/state/initial";
import { reduce } from "../src/state/reduce";
import { between, meant, toggled, topmost } from "../src/state/chosen";
import { byName, entriesOf, folderAt, rowsOf } from "../src/state/file-tree";
import type { FileEntry, State } from "../src/state/types";
import { besideName } from "../src/state/uploads";

const file = (path: string, type = "file"): FileEntry => ({ path, type, size: 1 });
const after = (state: State, ...actions: Action[]): State => actions.reduce(reduce, state);
const listed = (path: string, ...entries: FileEntry[]): Action => ({ type: "folder.listed", path, entries, more: false });
const start = after(initialState({ ...emptyPage, page: "workspace" }, 0, "system"), { type: "tree.rooted", path: "/h" },
  listed("/h", file("/h/a", "directory"), file("/h/b.txt"), file("/h/.c")), { type: "folder.toggled", path: "/h/a" },
  listed("/h/a", file("/h/a/one"), file("/h/a/two")));
const names = (state: State): string[] => entriesOf(rowsOf(state, "/h")).map((row) => row.entry.path);

describe("rows", () => {
  it("stand below each other with their level and their place among their own", () => {
    const rows = entriesOf(rowsOf(start, "/h"));
    expect(rows.map((row) => [row.entry.path, row.depth, row.at, row.of])).toEqual(
      [["/h/a", 0, 1, 2], ["/h/a/one", 1, 1, 2], ["/h/a/two", 1, 2, 2], ["/h/b.txt", 0, 2, 2]]);
    expect(byName(rows, 1, "B")?.entry.path).toBe("/h/b.txt");
    expect([folderAt(start, "/h/a"), folderAt(start, "/h/b.txt"), folderAt(start, "")]).toEqual(["/h/a", "/h", "/h"]);
  });

  it("say what is empty, and show hidden ones when asked to", () => {
    const empty = after(start, listed("/h/a"));
    expect(rowsOf(empty, "/h")[1]).toMatchObject({ kind: "note", text: "Empty" });
    expect(names(after(start, { type: "hidden.toggled" }))).toContain("/h/.c");
  });
});

describe("a folder that is read again", () => {
  it("keeps what did not change as the very same, and what is open open", () => {
    const again = after(start, listed("/h", file("/h/a", "directory"), file("/h/new"), file("/h/b.txt"), file("/h/.c")));
    expect(again.tree["/h"]!.entries[0]).toBe(start.tree["/h"]!.entries[0]);
    expect(names(again)).toEqual(["/h/a", "/h/a/one", "/h/a/two", "/h/b.txt", "/h/new"]);
  });

  it("moves the focus from what went to what stands in its place, and forgets what was in it", () => {
    const inside = after(start, { type: "explorer.changed", change: { focus: "/h/a/two" } });
    const gone = after(inside, listed("/h", file("/h/b.txt"), file("/h/.c")));
    expect(gone.explorer.focus).toBe("/h/b.txt");
    expect(gone.tree["/h/a"]).toBeUndefined();
    expect(after(inside, listed("/h/a", file("/h/a/one"))).explorer.focus).toBe("/h/a/one");
    expect(after(inside, listed("/h/a")).explorer.focus).toBe("/h/a");
  });
});

describe("names and bytes", () => {
  it("puts the number before the kind", () => {
    expect(["a.txt", "a.tar.gz", "v1.2 notes.txt", "Makefile", ".env"].map((name) => besideName(name, 2)))
      .toEqual(["a (2).txt", "a (2).tar.gz", "v1.2 notes (2).txt", "Makefile (2)", ".env (2)"]);
  });

  it("knows pictures by name and shows other bytes in rows", () => {
    expect([pictureType("a.PNG"), pictureType("a.svg"), pictureType("png"), pictureType(".png")]).toEqual(["image/png", "image/svg+xml", "", ""]);
    expect(hexRows(Uint8Array.from({ length: 18 }, (_, at) => at + 65))[1]).toMatch(/^00000010 {2}51 52 +QR$/);
  });

  it("cuts a beginning at a line, else between letters", () => {
    const cut = (text: string, length: number): string => new TextDecoder().decode(wholeLines(new TextEncoder().encode(text).slice(0, length)));
    expect(cut("one\ntwo", 6)).toBe("one\n");
    expect(cut("aé", 2)).toBe("a");
  });
});

describe("several rows", () => {
  it("reach from one to another, and what lies in a chosen folder goes along with it", () => {
    const rows = entriesOf(rowsOf(start, "/h"));
    expect(between(rows, "/h/b.txt", "/h/a/one")).toEqual(["/h/a/one", "/h/a/two", "/h/b.txt"]);
    expect(between(rows, "/gone", "/h/a")).toEqual(["/h/a"]);
    expect(topmost(["/h/a/one", "/h/a", "/h/ab", "/h/a/one/deep"])).toEqual(["/h/a", "/h/ab"]);
    expect([toggled(["/x"], "/y"), toggled(["/x"], "/x")]).toEqual([["/x", "/y"], []]);
  });

  it("are meant together by each of them, and by no other", () => {
    const chosen = after(start, { type: "explorer.changed", change: { chosen: ["/h/a", "/h/b.txt"], cut: ["/h/b.txt"], renaming: { path: "/h/b.txt", problem: "", busy: false } } });
    expect([meant(chosen, "/h/b.txt"), meant(chosen, "/h/a/one")]).toEqual([["/h/a", "/h/b.txt"], ["/h/a/one"]]);
    const gone = after(chosen, listed("/h", file("/h/a", "directory")));
    expect([gone.explorer.chosen, gone.explorer.cut, gone.explorer.renaming]).toEqual([["/h/a"], [], null]);
  });
});
