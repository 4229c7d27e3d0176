import type { SignalState } from "../api/types";

/** What the list shows. An empty value lets everything pass. */
export interface Filters {
  asset: string;
  agent: string;
  strategy: string;
  direction: string;
  confidence: string; // the least, in percent
  status: string;
}

export const noFilters: Filters = { asset: "", agent: "", strategy: "", direction: "", confidence: "", status: "" };

const maxText = 64;
const directions = ["long", "short"];
const statuses = ["open", "closed"];

/** Reads the filters of an address, in the order of noFilters; what makes no sense is dropped, never shown as a filter that does nothing. */
export function readFilters(query: Record<string, string>): Filters {
  const text = (name: string) => (query[name] ?? "").slice(0, maxText);
  const one = (name: string, of: string[]) => (of.includes(query[name] ?? "") ? query[name]! : "");
  const least = Number(query["confidence"]);
  return {
    asset: text("asset"),
    agent: text("agent"),
    strategy: text("strategy"),
    direction: one("direction", directions),
    confidence: Number.isInteger(least) && least > 0 && least <= 100 ? String(least) : "",
    status: one("status", statuses),
  };
}

export const anyFilter = (f: Filters) => Object.values(f).some((value) => value !== "");

/** Reports whether a signal passes. The asset matches by its beginning, as it is being typed. */
export function passes(f: Filters, s: SignalState): boolean {
  if (f.status && s.status !== f.status) return false;
  if (f.direction && s.direction !== f.direction) return false;
  if (f.agent && s.agent_id !== f.agent) return false;
  if (f.strategy && s.strategy !== f.strategy) return false;
  if (f.confidence && s.confidence < Number(f.confidence) / 100) return false;
  return !f.asset || s.asset.toLowerCase().startsWith(f.asset.toLowerCase());
}

/** Returns the filters as parameters of GET /v1/signals. The asset is left out while it is not a whole name. */
export function asQuery(f: Filters, assets: ReadonlySet<string>): Record<string, string> {
  const whole = [...assets].find((name) => name.toLowerCase() === f.asset.toLowerCase());
  return {
    asset: whole ?? "",
    agent_id: f.agent,
    strategy: f.strategy,
    direction: f.direction,
    min_confidence: f.confidence ? String(Number(f.confidence) / 100) : "",
    status: f.status,
  };
}
