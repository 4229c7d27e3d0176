import { signal } from "@preact/signals";

const query = typeof matchMedia === "undefined" ? null : matchMedia("(max-width: 860px)");

/** Whether the page has one column. */
export const narrow = signal(query?.matches ?? false);

query?.addEventListener("change", () => (narrow.value = query.matches));
