/** Holds the one State; the only place that replaces it. Knows no page: whoever wants to draw subscribes. */

import type { Action } from "./actions";
import { reduce } from "./reduce";
import type { State } from "./types";

export interface Store {
  get(): State;
  dispatch(action: Action): void;
  /** Answers how to hear no more. */
  subscribe(listener: () => void): () => void;
}

export function createStore(initial: State): Store {
  let state = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => state,
    dispatch(action) {
      const next = reduce(state, action);
      if (next === state) return;
      state = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
