/** How checkpoints, holds and what a restore would undo change. Part of reduce.ts; pure. */

import type { Action } from "./actions";
import type { BerthEvent, Checkpoint, State, TimeState } from "./types";

export function reduceTime(state: State, action: Action): State {
  const time = changed(state.time, action);
  return time === state.time ? state : { ...state, time };
}

function changed(time: TimeState, action: Action): TimeState {
  switch (action.type) {
    case "checkpoints.listed":
      return { ...time, status: "listed", problem: "", checkpoints: action.checkpoints, more: action.more };
    case "checkpoints.failed":
      return { ...time, status: "failed", problem: action.problem };
    case "checkpoint.changed":
      return { ...time, checkpoints: withOne(time.checkpoints, action.checkpoint) };
    case "holds.listed":
      return { ...time, holds: action.holds };
    case "loss.known":
      return { ...time, loss: action.loss };
    case "undo.dismissed":
      return { ...time, undoDismissed: action.seq };
    default:
      return time;
  }
}

function withOne(checkpoints: Checkpoint[], one: Checkpoint): Checkpoint[] {
  const known = checkpoints.some((other) => other.id === one.id);
  return known ? checkpoints.map((other) => (other.id === one.id ? one : other)) : [one, ...checkpoints];
}

/** How long after a restore its Undo stands on the page; in Time the safety checkpoint stays longer. */
export const undoOfferedMs = 60 * 60 * 1000;

export interface Undo { event: BerthEvent; safety: Checkpoint; target: Checkpoint | undefined }

/** The newest restore, while what undoes it is there and nobody put the offer away. Seen by all who look, whoever restored. */
export function undoOf(state: State): Undo | null {
  const event = state.events.findLast((one) => one.kind === "workspace.restored");
  if (!event || event.seq <= state.time.undoDismissed || state.now - Date.parse(event.at) > undoOfferedMs) return null;
  const find = (id: unknown): Checkpoint | undefined => state.time.checkpoints.find((one) => one.id === id);
  const safety = find(event.data["safety_checkpoint"]);
  return safety?.state === "ready" ? { event, safety, target: find(event.data["checkpoint"]) } : null;
}
