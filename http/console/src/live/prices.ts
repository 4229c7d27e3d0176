import { signal } from "@preact/signals";
import { get } from "../api/client";
import type { Asset } from "../api/types";
import * as session from "../session";

// The one place that knows where prices come from: the list of assets, every few seconds. The stream's channel
// market.price needs a filter by asset, which would hide the signals of other assets from the same connection.

const every = 5000;

/** The assets by name. Names are compared as the service writes them. */
export const assets = signal<ReadonlyMap<string, Asset>>(new Map());

/** Whether the prices of an asset, or of all if it is absent, are made up. */
export function simulated(list = assets.value): boolean {
  for (const a of list.values()) if (a.simulated && a.last_price !== null) return true;
  return false;
}

/** The price of a signal now: that of its asset, or its entry while nothing newer is known. */
export function priceOf(s: Priced): number | null {
  const asset = assets.value.get(s.asset);
  const older = !asset?.last_price_at || Date.parse(asset.last_price_at) < Date.parse(s.created_at);
  return older ? s.entry_price : asset.last_price;
}

type Priced = { asset: string; created_at: string; entry_price: number | null };

async function poll(): Promise<void> {
  if (session.state.value !== "in" || document.hidden) return;
  try {
    const answer = await get<{ assets: Asset[] }>("/v1/assets");
    assets.value = new Map(answer.assets.map((a) => [a.asset, a]));
  } catch {
    // The frame shows that the service does not answer; the last prices stay, with their age.
  }
}

/** Keeps the prices current while the page is visible. */
export function run(): void {
  session.state.subscribe((state) => state === "in" && void poll());
  setInterval(() => void poll(), every);
  document.addEventListener("visibilitychange", () => !document.hidden && void poll());
}
