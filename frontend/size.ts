/** Prints what a first visit loads, gzipped, and refuses a build above the limit. Called by Vite through vite.config.ts. */

import { gzipSync } from "node:zlib";
import type { Plugin, Rollup } from "vite";

export const limitKilobytes = 500;

export function firstLoad(): Plugin {
  return {
    name: "first-load",
    writeBundle(_options, bundle) {
      const bytes = firstLoadBytes(bundle);
      const kilobytes = Math.round(bytes / 1000);
      console.log(`first load: ${kilobytes} kB of JavaScript, gzipped (limit ${limitKilobytes} kB)`);
      if (kilobytes >= limitKilobytes) this.error(`the first load is ${kilobytes} kB, the limit is ${limitKilobytes} kB`);
    },
  };
}

function firstLoadBytes(bundle: Rollup.OutputBundle): number {
  const chunks = Object.values(bundle).filter((one): one is Rollup.OutputChunk => one.type === "chunk");
  const entry = chunks.find((chunk) => chunk.isEntry);
  const wanted = new Set(entry ? [entry.fileName] : []);
  for (const name of wanted) {
    for (const needed of chunks.find((chunk) => chunk.fileName === name)?.imports ?? []) wanted.add(needed);
  }
  return chunks.filter((chunk) => wanted.has(chunk.fileName)).reduce((sum, chunk) => sum + gzipSync(chunk.code).length, 0);
}
