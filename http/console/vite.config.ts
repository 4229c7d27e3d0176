import { defineConfig } from "vite";

// All files lie in one folder, so that the service needs one route for them. A hash in a name stands for the
// content: caches may keep such a file for ever.
export default defineConfig({
  base: "/dashboard/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    assetsDir: "",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The first versions with light-dark(), popovers and AbortSignal.any().
    target: ["chrome123", "firefox128", "safari17.5"],
    cssCodeSplit: false,
    reportCompressedSize: true,
    rolldownOptions: {
      // The second is the script of public records; console.go knows its name.
      input: { index: "index.html", public: "src/record/page.ts" },
      // What the first page loads is one file, apart from its entry: together it compresses better. Public records need little of it.
      output: { codeSplitting: { groups: [{ name: "page", tags: ["$initial"], test: /^(?!.*\/src\/record\/)/ }] } },
    },
    license: { fileName: "licences.md" }, // of what the bundle contains; the script "build" moves it out of what is served
  },
  server: { fs: { allow: ["../.."] }, proxy: { "/v1": { target: "http://localhost:8080", ws: true }, "/readyz": "http://localhost:8080" } },
});
