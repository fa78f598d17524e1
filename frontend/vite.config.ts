/** How the front end is built: hashed files below assets/, and a manifest that workspaces/pages reads. */

import { defineConfig } from "vite";
import { firstLoad } from "./size";

export default defineConfig({
  base: "/static/",
  build: {
    outDir: "dist", manifest: "manifest.json", target: "es2022", modulePreload: { polyfill: false },
    reportCompressedSize: false, chunkSizeWarningLimit: 2000, assetsInlineLimit: 0,
    rollupOptions: { input: "src/main.ts" },
  },
  plugins: [firstLoad()],
  test: { include: ["unit/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
