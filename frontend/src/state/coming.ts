/** What comes next for a workspace by itself, and what keeps it awake, in words. Pure; called by views. */

import type { Awake, Hold, State, Workspace } from "./types";
import { ahead, clock, readable } from "./words";

const goes: Record<string, string> = {
  standby: "goes to standby", stopped: "stops", deleted: "goes to the trash", purged: "is removed for good",
};

/** Why, after "because" or in its place. Terms of policy are named as what they count. */
const why: Record<string, string> = {
  idle: "because idle", hold: "when the last hold ends", owner_suspended: "because its owner is suspended",
  standby_failed: "as it could not before",
  stop_after: "after long standby", trash_after: "after being unused for long", trash: "as the trash is emptied",
};

/** "goes to standby in 12 min. because idle"; else what keeps it awake; empty when neither is known. */
export function comingWords(workspace: Workspace, nowMs: number): string {
  const next = workspace.next_transition;
  if (!next) return awakeWords(workspace.awake_because ?? []);
  const because = why[next.because] ?? `because ${readable(next.because).replaceAll("_", " ")}`;
  return `${goes[next.to] ?? `becomes ${readable(next.to)}`} ${ahead(next.at, nowMs)} ${because}`;
}

function awakeWords(awake: Awake[]): string {
  const [first] = awake;
  if (!first || first.kind === "policy" || first.kind === "host") return "";
  if (first.kind === "exec") return `stays awake: ${readable(first.detail)}`;
  if (first.kind === "cpu") return "stays awake: busy";
  return ["hold", "standby_failed"].includes(first.kind) ? `stays awake: ${readable(first.detail)}` : "";
}

/** All that keeps it awake, a line each: for the tooltip of the words above. */
export function awakeList(workspace: Workspace): string {
  return (workspace.awake_because ?? []).map((one) => {
    const until = one.until ? `, until ${clock(one.until)}` : "";
    return `${one.kind === "activity" ? "last activity" : one.kind}: ${readable(one.detail) || "-"}${until}`;
  }).join("\n");
}

/** The reason that the page gives for its own holds: the same again sets the end anew. */
export const holdReason = "asked for on the page";

export function holdWords(hold: Hold, state: State): string {
  const by = hold.from === "guest" ? "from inside" : hold.actor.name === state.page.user ? "" : `by ${readable(hold.actor.name)}`;
  const reason = hold.reason === holdReason ? "" : readable(hold.reason);
  return [`Kept awake until ${clock(hold.expires_at)}`, [by, reason].filter(Boolean).join(": ")].filter(Boolean).join(" ");
}
