/** What a workspace may reach, and what it was kept from, as rows of Activity. Pure; called by steps.ts. */

import type { Step } from "./steps";
import type { BerthEvent } from "./types";
import { readable } from "./words";

export function networkStep(event: BerthEvent): Partial<Step> | undefined {
  const { data } = event;
  if (event.kind === "network.changed") {
    const lists = [["+", data["added"]], ["−", data["removed"]]].flatMap(([sign, rules]) => Array.isArray(rules) ? rules.map((one) => `${String(sign)}${String(one)}`) : []);
    return { text: changed(data["mode"], data["rules"]), code: readable(lists.join(" ")), detail: event.cause === "policy" ? "the admins’ terms changed" : "" };
  }
  if (event.kind !== "network.refused") return undefined;
  const place = destination(data);
  const times = Number(data["count"] ?? 1);
  const why = readable(String(data["reason"] ?? "")).replaceAll("_", " ");
  return { text: "Network refused", code: place, detail: [why, times > 1 && `${times} times`].filter(Boolean).join(", ") };
}

/** `example.org:443`, or its address where there is no name. */
export function destination(data: Record<string, unknown>): string {
  const place = readable(String(data["name"] || data["address"] || ""));
  return place && data["port"] ? `${place}:${String(data["port"])}` : place;
}

function changed(mode: unknown, rules: unknown): string {
  if (mode === "allow-all") return "May reach anything";
  if (mode === "deny-all") return "May reach nothing";
  return `May reach ${rules === 1 ? "what one rule names" : `what ${Number(rules)} rules name`}`;
}
