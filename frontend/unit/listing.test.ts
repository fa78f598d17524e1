/** What the home page looks for: in its address, in the question to the API, by words and by columns; and what quota leaves. */

import { describe, expect, it } from "vitest";
import { addressOf, askedOf, cursorOf, isNarrow, labelsFrom, queryFrom, sortedBy, withoutFilters, withWords } from "../src/state/listing";
import { leftWords, shortfalls } from "../src/state/quota";
import { emptyPage, initialState } from "../src/state/initial";
import { reduce } from "../src/state/reduce";
import type { Me, Workspace } from "../src/state/types";

const plain = queryFrom("", true);

describe("what the list is asked for", () => {
  it("stands in the address and is read from it again", () => {
    const query = { ...plain, search: "api x", state: "running" as const, labels: [["team", "a&b"]] as [string, string][], everybody: true, sort: "name" as const, down: true };
    expect(queryFrom(addressOf(query).slice(1), true)).toEqual(query);
    expect(addressOf(plain)).toBe("/");
    expect(queryFrom("?state=dancing&sort=-colour&label.=x", true)).toEqual(plain);
  });

  it("shows everybody's to admins alone, and says so to the API", () => {
    expect(queryFrom("?everybody=true", false).everybody).toBe(false);
    expect(askedOf(plain, "")).toBe("limit=50&mine=true");
    expect(askedOf({ ...plain, everybody: true, sort: "owner", down: false }, "c1")).toBe("sort=owner&limit=50&cursor=c1");
  });

  it("takes words like KEY=VALUE as labels and the rest as what is searched", () => {
    const query = withWords(plain, " team=a  slow env= team=b box ");
    expect(query.labels).toEqual([["env", ""], ["team", "b"]]);
    expect(query.search).toBe("slow box");
    expect(isNarrow(query)).toBe(true);
    expect(isNarrow(withoutFilters(query))).toBe(false);
  });

  it("turns a column round, then lets it go", () => {
    const first = sortedBy(plain, "name");
    expect([first.sort, first.down]).toEqual(["name", false]);
    const second = sortedBy(first, "name");
    expect([second.sort, second.down]).toEqual(["name", true]);
    expect(sortedBy(second, "name")).toEqual(plain);
  });

  it("finds the cursor in the address of the next page", () => {
    expect(cursorOf("http://berth/api/v1/workspaces?limit=50&cursor=abc")).toBe("abc");
    expect(cursorOf(null)).toBe("");
  });

  it("does not take one workspace for the list", () => {
    const start = initialState(emptyPage, 0, "system");
    const one = { id: "a", state: "running" } as Workspace;
    expect(reduce(start, { type: "workspace.changed", workspace: one }).loaded).toBe(false);
    const read = reduce(start, { type: "listing.read", workspaces: [one], next: null, cursors: [""] });
    expect([read.loaded, read.listing.ids]).toEqual([true, ["a"]]);
  });
});

describe("a labels field", () => {
  it("is pairs apart by commas or spaces", () => {
    expect(labelsFrom("team=a, env=prod x=")).toEqual({ labels: { team: "a", env: "prod", x: "" }, wrong: "" });
    expect(labelsFrom("team=a oops").wrong).toBe("oops");
  });
});

describe("what quota leaves", () => {
  const used = { workspaces: 3, running: 1, cpus: 4, memory_mib: 1024, disk_gib: 30, checkpoints: 0 };
  const me: Me = { name: "ann", used, quota: { workspaces: 3, running: null, cpus: 6, memory_mib: 4096, disk_gib: 40, checkpoints: null } };

  it("is said of each kind that has a limit", () => {
    expect([leftWords(me, "memory_mib"), leftWords(me, "cpus"), leftWords(me, "running"), leftWords(null, "cpus")]).toEqual(["3 GiB left", "2 left", "", ""]);
  });

  it("is told before more is refused", () => {
    expect(shortfalls(me, { workspaces: 1, running: 1, cpus: 2, disk_gib: 11 })).toEqual({
      workspaces: "Your quota of 3 workspaces is used up.", disk_gib: "More than is left of your quota: 10 GiB of 40 GiB.",
    });
  });
});
