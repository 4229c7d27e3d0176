import { defineConfig } from "vite";

// All files lie in one folder, so that the service needs one route for them. A hash in a name stands for the
// content: caches may keep such a file for ever.
export default defineConfig({
  base: "/dashboard/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    // The second is the script of public records; console.go knows its name.
    rollupOptions: { input: { index: "index.html", public: "src/record/page.ts" } },
    assetsDir: "",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The first versions with light-dark(), popovers and AbortSignal.any().
    target: ["chrome123", "firefox128", "safari17.5"],
    cssCodeSplit: false,
    reportCompressedSize: true,
    license: { fileName: "licences.md" }, // of what the bundle contains; the script "build" moves it out of what is served
  },
  server: { proxy: { "/v1": { target: "http://localhost:8080", ws: true }, "/readyz": "http://localhost:8080" } },
});
