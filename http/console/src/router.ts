import { computed, signal } from "@preact/signals";

/** A place in the console: the part of the address behind "#". */
export interface Place {
  path: string[];
  query: Record<string, string>;
}

/** Reads the part of an address behind "#". Whatever cannot be read is left out. */
export function parsePlace(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const query: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(search)) query[name] = value;
  const parts = path.split("/").filter((part) => part !== "");
  return { path: parts.map(decode), query };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the address of a place; parameters without a value are left out. */
export function linkTo(path: string, query: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return `#/${path}${search ? `?${search}` : ""}`;
}

const hash = signal(typeof location === "undefined" ? "" : location.hash);

/** The place that is shown. */
export const place = computed(() => parsePlace(hash.value));
export const page = computed(() => place.value.path[0] ?? "live");

if (typeof window !== "undefined") window.addEventListener("hashchange", () => (hash.value = location.hash));

export function goTo(path: string, query: Record<string, string> = {}): void {
  location.hash = linkTo(path, query);
}

/** Changes the parameters without a step in the history. */
export function setQuery(query: Record<string, string>): void {
  history.replaceState(null, "", linkTo(place.value.path.join("/"), query));
  hash.value = location.hash;
}
