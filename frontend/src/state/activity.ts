/**
 * How events become Activity. Part of reduce.ts; pure.
 *
 * Events arrive in order but may arrive twice (a socket that came back replays); seq decides. The list is bounded: the
 * newest by themselves, older ones as somebody asks for them; the server keeps all.
 */

import type { Action } from "./actions";
import type { BerthEvent, State } from "./types";
import { omit } from "./workspaces";

export const keptEvents = 500;
/** Of one page that somebody scrolled back in. */
export const mostEvents = 5000;

export function reduceActivity(state: State, action: Action): State {
  switch (action.type) {
    case "events.received":
      return received(state, action.events);
    case "events.older":
      return withOlder(state, action.events, action.more);
    case "activity.changed":
      return { ...state, activity: { ...state.activity, ...action.change } };
    case "approvals.listed":
      return { ...state, approvals: action.approvals };
    case "step.expanded":
      return { ...state, expanded: { ...state.expanded, [action.key]: { kind: "loading" } } };
    case "step.read":
      return action.key in state.expanded
        ? { ...state, expanded: { ...state.expanded, [action.key]: action.detail } }
        : state;
    case "step.folded":
      return { ...state, expanded: omit(state.expanded, action.key) };
    default:
      return state;
  }
}

function received(state: State, events: BerthEvent[]): State {
  const fresh = events.filter((event) => event.seq > state.lastSeq).sort((a, b) => a.seq - b.seq);
  const last = fresh.at(-1);
  if (!last) return state;
  // Who looks back keeps what they looked up, while the newest still come in.
  const bound = Math.min(mostEvents, Math.max(keptEvents, state.events.length));
  const all = [...state.events, ...fresh];
  const older = all.length > bound && state.activity.older === "none" ? "unknown" : state.activity.older;
  return { ...state, events: all.slice(-bound), lastSeq: last.seq, activity: { ...state.activity, older } };
}

function withOlder(state: State, events: BerthEvent[], more: boolean): State {
  const first = state.events[0]?.seq ?? Infinity;
  const before = events.filter((event) => event.seq < first);
  return {
    ...state, events: [...before, ...state.events].slice(-mostEvents), lastSeq: Math.max(state.lastSeq, before.at(-1)?.seq ?? 0),
    activity: { ...state.activity, older: more ? "unknown" : "none" },
  };
}
