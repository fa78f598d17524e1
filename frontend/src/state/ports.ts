/** How ports and their shares change, and what they are called. Part of reduce.ts; pure. */

import type { Action } from "./actions";
import type { Port, PortsState, Share, State, Visibility } from "./types";

export function reducePorts(state: State, action: Action): State {
  const ports = changed(state.ports, action);
  return ports === state.ports ? state : { ...state, ports };
}

function changed(ports: PortsState, action: Action): PortsState {
  switch (action.type) {
    case "ports.changed":
      return Object.entries(action.change).some(([name, value]) => !same(ports[name as keyof PortsState], value)) ? { ...ports, ...action.change } : ports;
    case "share.made": {
      const { share } = action;
      const links = { ...ports.links };
      delete links[share.port];
      if (share.link) links[share.port] = share.link;
      return { ...ports, links, shares: [...ports.shares.filter((one) => one.port !== share.port), share] };
    }
    default:
      return ports;
  }
}

/** The list is asked for again and again: what is as it was draws nothing. */
function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** What listens on a port, and who may look at it; either may be there without the other. */
export interface PortRow { port: number; listens: Port[]; share: Share | undefined }

export function portRows({ ports, shares }: PortsState): PortRow[] {
  const numbers = [...new Set([...ports.map((one) => one.port), ...shares.map((one) => one.port)])].sort((a, b) => a - b);
  return numbers.map((port) => ({ port, listens: ports.filter((one) => one.port === port), share: shares.find((one) => one.port === port) }));
}

export const visibilityWords: Record<Visibility, string> = {
  private: "whoever has the link", signed_in: "everybody signed in here", public: "everybody",
};

export function previewUrl(template: string | null | undefined, port: number): string {
  return (template ?? "").replace("{port}", String(port));
}
