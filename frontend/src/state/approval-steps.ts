/** Acts that wait for a member as rows of Activity: that one was asked for and what became of it meet in one row. Pure;
 * called by steps.ts. */

import { destination } from "./network-steps";
import type { Step } from "./steps";
import type { BerthEvent } from "./types";
import { readable, type Tone } from "./words";

const ends: Record<string, [string, Tone]> = {
  requested: ["waits for approval", "busy"], approved: ["approved", "ok"], denied: ["denied", "bad"],
  expired: ["nobody decided in time", "bad"], withdrawn: ["taken back", "rest"], failed: ["approved, but not done", "bad"],
};

/** What a token wants to do, in a few words; a command stands beside them. */
export function wish(kind: unknown): string {
  switch (kind) {
    case "exec": return "Wants to run";
    case "restore": return "Wants to go back to a checkpoint";
    case "delete": return "Wants to delete the workspace";
    case "network": return "Wants to reach";
    default: return "Wants to act";
  }
}

export function approvalStep(event: BerthEvent, commandWords: (command: unknown) => string): Partial<Step> | undefined {
  const [family, what] = event.kind.split(".");
  const end = ends[what ?? ""];
  if (family !== "approval" || !end) return undefined;
  const by = what === "approved" || what === "denied" ? ` by ${readable(event.actor.name)}` : "";
  return {
    key: `approval-${String(event.data["approval"])}`,
    text: wish(event.data["kind"]),
    code: commandWords(event.data["command"]) || (event.data["kind"] === "network" ? destination(event.data) : readable(String(event.data["name"] ?? ""))),
    outcome: { text: end[0] + by, tone: end[1] },
    detail: what === "failed" ? readable(String(event.data["detail"] ?? "")) : "",
  };
}
