/** Use against quota, as figures with a bar each. Called by home and by the admin pages; reads what it is given. */

import { uses, type Use } from "../state/quota";
import type { Me } from "../state/types";
import { h, type VNode } from "./dom";

export function quotaBars(me: Pick<Me, "quota" | "used" | "disk_used_bytes">, label: string): VNode {
  return h("ul", { class: "quota", "aria-label": label, title: "Disk counts what workspaces were promised and what checkpoints hold" }, uses(me).map(one));
}

function one(use: Use): VNode {
  return h("li", { key: use.kind, class: use.full ? "quota-part full" : "quota-part" },
    h("span", { class: "quota-words" }, use.text, use.full && h("span", { class: "quota-full" }, " full")),
    use.share !== null && bar(use.share));
}

/** The words beside it say the same: it is for the eye alone. */
export function bar(share: number): VNode {
  const tone = share >= 1 ? "bar full" : share >= 0.8 ? "bar near" : "bar";
  return h("span", { class: tone, "aria-hidden": "true" }, h("span", { class: "bar-fill", style: { width: `${Math.round(share * 100)}%` } }));
}
