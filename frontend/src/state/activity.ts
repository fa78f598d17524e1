/**
 * How events become Activity. Part of reduce.ts; pure.
 *
 * Events arrive in order but may arrive twice (a socket that came back replays); seq decides. The list is bounded,
 * the server keeps the rest.
 */

import type { Action } from "./actions";
import type { BerthEvent, State } from "./types";
import { omit } from "./workspaces";

export const keptEvents = 500;

export function reduceActivity(state: State, action: Action): State {
  switch (action.type) {
    case "events.received":
      return received(state, action.events);
    case "approvals.listed":
      return { ...state, approvals: action.approvals };
    case "step.expanded":
      return { ...state, expanded: { ...state.expanded, [action.id]: "loading" } };
    case "step.read":
      return action.id in state.expanded
        ? { ...state, expanded: { ...state.expanded, [action.id]: action.exec } }
        : state;
    case "step.folded":
      return { ...state, expanded: omit(state.expanded, action.id) };
    default:
      return state;
  }
}

function received(state: State, events: BerthEvent[]): State {
  const fresh = events.filter((event) => event.seq > state.lastSeq).sort((a, b) => a.seq - b.seq);
  const last = fresh.at(-1);
  if (!last) return state;
  return { ...state, events: [...state.events, ...fresh].slice(-keptEvents), lastSeq: last.seq };
}
