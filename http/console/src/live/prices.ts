import { computed, signal } from "@preact/signals";
import { get } from "../api/client";
import type { Asset } from "../api/types";
import * as format from "../format";
import * as session from "../session";
import * as stream from "../stream/prices";

// The one place that knows where prices come from. The list of assets says what they are; the stream brings the prices
// of those that somebody looks at, and the list those of the others.

const every = 5000;
const whileStreamed = 30_000;

/** The assets by name. Names are compared as the service writes them. */
export const assets = signal<ReadonlyMap<string, Asset>>(new Map());

const joined = computed(() => [...assets.value.keys()].join("\n"));

/** Their names, which change far less often than their prices. */
export const assetNames = computed(() => (joined.value === "" ? [] : joined.value.split("\n")));

let formerClasses: ReadonlyMap<string, string | null> = new Map();

/** Their classes, which change as seldom. */
const classes = computed(() => {
  const list = assets.value;
  let same = list.size === formerClasses.size;
  for (const a of list.values()) same &&= formerClasses.get(a.asset) === a.class;
  if (!same) formerClasses = new Map([...list.values()].map((a) => [a.asset, a.class]));
  return formerClasses;
});

/** The class of an asset, or null while it is not known. */
export const classOf = (asset: string) => classes.value.get(asset) ?? null;

/** Returns a price of a signal as text, with as many decimals as its others. */
export const priceText = (value: number | null | undefined, s: Levels) =>
  format.price(value, classOf(s.asset), [s.entry_price, s.stop_loss, s.take_profit]);

/** Returns the step of the prices of a signal as they are written: a millionth, say, for a coin of a thousandth. */
export const priceStep = (s: Levels) => 10 ** -format.priceDigits(1, classOf(s.asset), [s.entry_price, s.stop_loss, s.take_profit]);

type Levels = { asset: string; entry_price: number | null; stop_loss: number | null; take_profit: number | null };

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

/** Returns the assets with newer prices, or the list itself if there are none. What it lacks waits for the next list. */
export function merge(list: ReadonlyMap<string, Asset>, prices: Iterable<stream.Price>): ReadonlyMap<string, Asset> {
  let next: Map<string, Asset> | null = null;
  for (const p of prices) {
    const asset = list.get(p.asset);
    if (!asset || (asset.last_price_at && Date.parse(asset.last_price_at) >= Date.parse(p.at))) continue;
    next ??= new Map(list);
    next.set(p.asset, { ...asset, last_price: p.price, last_price_at: p.at, source: p.source as Asset["source"] });
  }
  return next ?? list;
}

/** What a subscription accepts as a name: one that it does not would take the prices from all. */
const isName = (name: string) => /^[^\p{Cc}]{1,64}$/u.test(name) && name.trim() === name;

/** Returns the assets of signals that have prices, without repetition, and whether these are all. */
export function assetsOf(signals: Iterable<Priced>, most = stream.maxAssets - 1): { names: string[]; all: boolean } {
  const names = new Set<string>();
  let all = true;
  for (const s of signals) {
    if (s.entry_price === null || names.has(s.asset)) continue;
    if (names.size === most || !isName(s.asset)) all = false;
    else names.add(s.asset);
    if (names.size === most && !all) break;
  }
  return { names: [...names], all };
}

let polledAt = 0;
let polling = false;
let pollTimer = 0;

const streamed = new Map<string, stream.Price>(); // the newest by asset
let drawing = false;

/** Prices come in bursts, once a second: one change of the page takes all. */
function take(p: stream.Price): void {
  streamed.set(p.asset, p);
  if (!assets.peek().has(p.asset) && Date.now() - polledAt > every) {
    polledAt = 0; // a new asset
    void poll();
  }
  if (drawing) return;
  drawing = true;
  setTimeout(() => {
    drawing = false;
    if (!document.hidden) assets.value = merge(assets.peek(), streamed.values());
  }, 50);
}

let listed: { names: string[]; all: boolean } = { names: [], all: true };
let looked = "";

const want = () => stream.want(looked && isName(looked) ? [looked, ...listed.names] : listed.names);

/** Follows the prices of signals. */
export function follow(signals: Iterable<Priced>): void {
  listed = assetsOf(signals);
  want();
}

/** Follows the price of an asset as well, until the returned function is called. */
export function look(asset: string): () => void {
  looked = asset;
  want();
  return () => {
    looked = "";
    want();
  };
}

/** Asks for the list of assets, and every few seconds after it again. */
async function poll(): Promise<void> {
  clearInterval(pollTimer);
  pollTimer = window.setInterval(() => void poll(), every);
  if (polling || session.state.value !== "in" || document.hidden) return;
  if (listed.all && stream.flows() && Date.now() - polledAt < whileStreamed) return;
  polledAt = Date.now();
  polling = true;
  try {
    const answer = await get<{ assets: Asset[] }>("/v1/assets");
    if (document.hidden) return; // nothing is drawn
    assets.value = merge(new Map(answer.assets.map((a) => [a.asset, a])), streamed.values());
  } catch {
    // The frame shows that the service does not answer; the last prices stay, with their age.
  } finally {
    polling = false;
  }
}

/** Keeps the prices current while the page is visible. */
export function run(): void {
  stream.run(take);
  session.state.subscribe((state) => {
    polledAt = 0;
    if (state === "in") void poll();
  });
  document.addEventListener("visibilitychange", () => {
    polledAt = 0;
    if (!document.hidden) void poll();
  });
}
