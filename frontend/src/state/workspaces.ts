/** How the list of workspaces changes. Part of reduce.ts; pure. */

import type { Action } from "./actions";
import type { State, Workspace } from "./types";

export function reduceWorkspaces(state: State, action: Action): State {
  switch (action.type) {
    case "workspaces.loaded":
      return { ...state, loaded: true, missing: false, workspaces: byId(action.workspaces) };
    case "workspace.changed":
      return withWorkspace(state, action.workspace);
    case "workspace.gone":
      return without(state, action.id);
    case "command.sent":
      return { ...state, pending: { ...state.pending, [action.id]: action.command } };
    case "command.answered":
      return { ...state, pending: omit(state.pending, action.id) };
    default:
      return state;
  }
}

function byId(workspaces: Workspace[]): Record<string, Workspace> {
  return Object.fromEntries(workspaces.filter((one) => one.state !== "deleted").map((one) => [one.id, one]));
}

function withWorkspace(state: State, workspace: Workspace): State {
  if (workspace.state === "deleted" && state.page.page === "home" && state.listing.query.state !== "deleted") return without(state, workspace.id);
  return { ...state, loaded: isKnown(state), missing: false, workspaces: { ...state.workspaces, [workspace.id]: workspace } };
}

function without(state: State, id: string): State {
  const missing = state.missing || (state.page.page === "workspace" && id === state.page.workspace);
  return { ...state, loaded: isKnown(state), missing, workspaces: omit(state.workspaces, id) };
}

/** One workspace is no list: home waits for its page of them. */
function isKnown(state: State): boolean {
  return state.loaded || state.page.page !== "home";
}

export function omit<T>(record: Record<string, T>, key: string): Record<string, T> {
  const { [key]: _gone, ...rest } = record;
  return rest;
}
