/** What a workspace may reach, and what it did, over REST. Called by commands/network.ts; no state. */

import type { Attempt, Network, Policy } from "../state/network";
import { askJson } from "./client";

const networkUrl = (workspace: string): string => `/api/v1/workspaces/${workspace}/network`;

export const readNetwork = (workspace: string): Promise<Network> => askJson(networkUrl(workspace));

/** Only over the revision that was read: what somebody else changed meanwhile is not undone unseen. */
export const setNetwork = (workspace: string, policy: Policy, revision: number): Promise<Network> =>
  askJson(networkUrl(workspace), { method: "PUT", json: policy, headers: { "If-Match": `"${revision}"` } });

/** Rows after that one, oldest first; the newest there are without one. */
export async function readLog(workspace: string, after: number, refused: boolean): Promise<Attempt[]> {
  const query = new URLSearchParams({ limit: "200", ...(after ? { after: String(after) } : {}), ...(refused ? { verdict: "refused" } : {}) });
  const page: { results: Attempt[] } = await askJson(`${networkUrl(workspace)}/log?${query}`);
  return page.results;
}
