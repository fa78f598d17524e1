/** The trees of terminals that share a tab. Pure; called by the terminals' reduce and by the views. */

import type { PaneTree, TerminalGroup } from "./types";

export const leastShare = 0.15;

export function leavesOf(tree: PaneTree): string[] {
  return typeof tree === "string" ? [tree] : [...leavesOf(tree.a), ...leavesOf(tree.b)];
}

export function groupOf(groups: TerminalGroup[], id: string): TerminalGroup | undefined {
  return groups.find((group) => leavesOf(group.tree).includes(id));
}

/** `id` gives half of its place to `fresh`. */
export function splitAt(tree: PaneTree, id: string, fresh: string, way: "row" | "column"): PaneTree {
  if (tree === id) return { way, share: 0.5, a: id, b: fresh };
  if (typeof tree === "string") return tree;
  return { ...tree, a: splitAt(tree.a, id, fresh, way), b: splitAt(tree.b, id, fresh, way) };
}

/** What is left of a tree when only some terminals stay; null when none does. */
export function keeping(tree: PaneTree, stays: (id: string) => boolean): PaneTree | null {
  if (typeof tree === "string") return stays(tree) ? tree : null;
  const a = keeping(tree.a, stays), b = keeping(tree.b, stays);
  if (a === null || b === null) return a ?? b;
  return { ...tree, a, b };
}

/** `path` leads to a split by the letters a and b from the root. */
export function sharing(tree: PaneTree, path: string, share: number): PaneTree {
  if (typeof tree === "string") return tree;
  if (path === "") return { ...tree, share: Math.min(1 - leastShare, Math.max(leastShare, share)) };
  const side = path.startsWith("a") ? "a" : "b";
  return { ...tree, [side]: sharing(tree[side], path.slice(1), share) };
}

/** What side a has of the split that `path` leads to. */
export function shareAt(tree: PaneTree, path: string): number {
  if (typeof tree === "string") return 0.5;
  return path === "" ? tree.share : shareAt(path.startsWith("a") ? tree.a : tree.b, path.slice(1));
}

export function replacing(tree: PaneTree, old: string, fresh: string): PaneTree {
  if (typeof tree === "string") return tree === old ? fresh : tree;
  return { ...tree, a: replacing(tree.a, old, fresh), b: replacing(tree.b, old, fresh) };
}

export function onlyWith(groups: TerminalGroup[], stays: (id: string) => boolean): TerminalGroup[] {
  return groups.flatMap((group) => {
    const tree = keeping(group.tree, stays);
    return tree === null ? [] : [{ id: leavesOf(tree)[0]!, tree }];
  });
}

/** What a browser kept from an earlier visit, as far as it is what this page keeps. */
export function readGroups(value: unknown): TerminalGroup[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((group: { tree?: unknown } | null) => {
    const tree = readTree(group?.tree);
    return tree === null ? [] : [{ id: leavesOf(tree)[0]!, tree }];
  });
}

function readTree(value: unknown): PaneTree | null {
  if (typeof value === "string") return value;
  const split = value as { way?: unknown; share?: unknown; a?: unknown; b?: unknown } | null;
  if (typeof split !== "object" || split === null || (split.way !== "row" && split.way !== "column")) return null;
  const a = readTree(split.a), b = readTree(split.b);
  if (a === null || b === null) return a ?? b;
  return sharing({ way: split.way, share: 0.5, a, b }, "", typeof split.share === "number" ? split.share : 0.5);
}
