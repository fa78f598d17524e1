/** Use against quota: what is taken, what is left, what something more would break. Pure; called by views. */

import type { Me, QuotaKind } from "./types";
import { bytes, mebibytes } from "./words";

const kinds: [QuotaKind, string][] = [
  ["workspaces", "workspaces"], ["running", "running"], ["cpus", "CPUs"], ["memory_mib", "memory"], ["disk_gib", "disk"],
  ["checkpoints", "checkpoints"],
];

export interface Use {
  kind: QuotaKind | "stored";
  /** "3 of 10 workspaces". */
  text: string;
  /** From 0 to 1; null where nothing limits it. */
  share: number | null;
  /** Nothing more fits. */
  full: boolean;
}

type Figures = Pick<Me, "quota" | "used" | "disk_used_bytes">;

/** A part each; a disk counts as promised, and each checkpoint by what it alone holds. */
export function uses(me: Figures): Use[] {
  const stored = me.disk_used_bytes === undefined ? [] : [{ kind: "stored" as const, text: `${bytes(me.disk_used_bytes)} stored`, share: null, full: false }];
  return [...kinds.map(([kind, word]): Use => {
    const [used, limit] = [me.used[kind], me.quota[kind]];
    const amount = limit === null ? sized(kind, used) : `${sized(kind, used)} of ${sized(kind, limit)}`;
    return { kind, text: `${amount} ${word}`, share: limit === null ? null : limit === 0 ? 1 : Math.min(1, used / limit), full: limit !== null && used >= limit };
  }), ...stored];
}

export function sized(kind: QuotaKind, amount: number): string {
  if (kind === "memory_mib") return mebibytes(amount);
  return kind === "disk_gib" ? `${amount} GiB` : String(amount);
}

/** What is left of a kind; null where nothing limits it. */
export function left(me: Figures, kind: QuotaKind): number | null {
  const limit = me.quota[kind];
  return limit === null ? null : Math.max(0, limit - me.used[kind]);
}

/** "4 GiB left", or nothing to say. */
export function leftWords(me: Figures | null, kind: QuotaKind): string {
  const rest = me ? left(me, kind) : null;
  return rest === null ? "" : `${sized(kind, rest)} left`;
}

/** By kind, what would be refused: said before it is. */
export function shortfalls(me: Figures | null, wanted: Partial<Record<QuotaKind, number>>): Partial<Record<QuotaKind, string>> {
  if (!me) return {};
  return Object.fromEntries(kinds.flatMap(([kind, word]): [QuotaKind, string][] => {
    const [asked, rest, limit] = [wanted[kind] ?? 0, left(me, kind), me.quota[kind]];
    if (rest === null || asked <= rest) return [];
    return [[kind, rest === 0 ? `Your quota of ${sized(kind, limit!)} ${word} is used up.` : `More than is left of your quota: ${sized(kind, rest)} of ${sized(kind, limit!)}.`]];
  }));
}
