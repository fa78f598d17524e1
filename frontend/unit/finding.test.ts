/** What is found by typing: paths, keys, lines. */

import { describe, expect, it } from "vitest";
import { filesIn } from "../src/api/grep";
import { chordWords, fits, type Pressed } from "../src/state/chords";
import { ranked } from "../src/state/picker";
import { marksIn, noSearch } from "../src/state/search";

const best = (paths: string[], query: string): string[] => ranked(paths, query).map(({ at }) => paths[at]!);
const press = (key: string, how: Partial<Pressed> = {}): Pressed =>
  ({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...how });

describe("quick open", () => {
  const paths = ["src/pages/api.py", "src/api/pages.py", "docs/pages.md", "tests/test_pages.py", "src/p/a/g/e/s.py"];

  it("prefers the name to the folder and the whole word to its letters", () => {
    expect(best(paths, "pages")[0]).toBe("docs/pages.md");
    expect(best(paths, "pages.py")).toEqual(["src/api/pages.py", "tests/test_pages.py", "src/p/a/g/e/s.py", "src/pages/api.py"]);
    expect(best(paths, "api.py")[0]).toBe("src/pages/api.py");
  });

  it("finds letters in order, words in any order, and nothing where one is missing", () => {
    expect(best(paths, "tstpgs")).toEqual(["tests/test_pages.py"]);
    expect(best(paths, "pages api")).toContain("src/api/pages.py");
    expect(best(paths, "zebra")).toEqual([]);
  });

  it("marks what fits, and shows the first ones while nothing is typed", () => {
    expect(ranked(["a/bcd.py"], "cd")[0]!.marks).toEqual([3, 4]);
    expect(best(paths, "")).toEqual(paths);
    expect(ranked(Array.from({ length: 500 }, String), "")).toHaveLength(60);
  });
});

describe("keys", () => {
  it("takes Ctrl for Mod, and Cmd on a Mac", () => {
    expect(fits("Mod+P", press("p", { ctrlKey: true }), false)).toBe(true);
    expect(fits("Mod+P", press("p", { metaKey: true }), true)).toBe(true);
    expect(fits("Mod+P", press("p", { ctrlKey: true }), true)).toBe(false);
    expect(fits("Mod+P", press("P", { ctrlKey: true, shiftKey: true }), false)).toBe(false);
    expect(fits("Mod+Shift+P", press("P", { ctrlKey: true, shiftKey: true }), false)).toBe(true);
  });

  it("takes a sign wherever the keyboard has it, and a letter where other alphabets have theirs", () => {
    expect(fits("?", press("?", { shiftKey: true }), false)).toBe(true);
    expect(fits("?", press("?", { shiftKey: true, ctrlKey: true }), false)).toBe(false);
    expect(fits("Alt+W", press("∑", { altKey: true, code: "KeyW" }), true)).toBe(true);
    expect(fits("Mod+S", press("ы", { ctrlKey: true, code: "KeyS" }), false)).toBe(true);
    expect(fits("Mod+S", press("o", { ctrlKey: true, code: "KeyS" }), false)).toBe(false);
  });

  it("is said as the keyboard says it", () => {
    expect(chordWords("Mod+Shift+P", false)).toBe("Ctrl+Shift+P");
    expect(chordWords("Mod+Shift+P", true)).toBe("⌘⇧P");
  });
});

describe("search", () => {
  const wanted = { ...noSearch.wanted, text: "a.b" };

  it("marks a text as it stands and an expression as it is meant", () => {
    expect(marksIn("xa.b axb A.B", wanted)).toEqual([[1, 4], [9, 12]]);
    expect(marksIn("xa.b A.B", { ...wanted, matchCase: true })).toEqual([[1, 4]]);
    expect(marksIn("xa.b axb", { ...wanted, regex: true })).toEqual([[1, 4], [5, 8]]);
    expect(marksIn("a(b", { ...wanted, text: "(", regex: true })).toEqual([]);
  });

  it("reads what grep says, and leaves out a line that was cut off", () => {
    const output = new TextEncoder().encode("./a b.py\x001:one: two\n./a b.py\x007:three\n./c\x002:x\n./d\x0012");
    expect(filesIn("/home/user", output)).toEqual([
      { path: "/home/user/a b.py", cut: false, lines: [{ line: 1, column: 0, text: "one: two" }, { line: 7, column: 0, text: "three" }] },
      { path: "/home/user/c", cut: false, lines: [{ line: 2, column: 0, text: "x" }] },
    ]);
  });
});
