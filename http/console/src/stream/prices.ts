import { ProblemError, Stream } from "agentsignal";
import { client } from "../api/client";
import * as session from "../session";
import type { Message } from "./client";

// A connection of its own for market.price: its filter by asset would hide the signals of other assets from the one
// that the list follows. Prices are not replayed, so it needs no position; a new subscription brings the newest.

/** A price as the stream brings it. */
export interface Price {
  asset: string;
  price: number;
  at: string;
  source: string;
}

/** The number of assets that a subscription may name. */
export const maxAssets = 100;

const settle = 400; // names change while a list is loaded or filtered
const channel = "market.price";

let named: string[] = [];
let handler: (p: Price) => void = () => {};
let stream: Stream | null = null;
let ending: AbortController | null = null; // of the stream
let subscribed = false;
let unsupported = false; // by this version of the service, or for this account
let timer = 0;

/** Whether prices of all named assets come. */
export const flows = () => subscribed;

/** Names the assets whose prices are wanted; those behind the first maxAssets are left out. */
export function want(assets: readonly string[]): void {
  const next = [...new Set(assets)].slice(0, maxAssets).sort();
  if (next.join("\n") === named.join("\n")) return;
  named = next;
  again(settle);
}

/** Reads a price, or returns null where a message is none. */
export function priceOf(m: Message): Price | null {
  const p = m?.data as Partial<Price> | null | undefined;
  const good = m?.type === channel && typeof p?.asset === "string" && typeof p.price === "number" && p.price > 0;
  return good && typeof p.at === "string" && !Number.isNaN(Date.parse(p.at)) ? (p as Price) : null;
}

const wanted = () => named.length > 0 && !unsupported && !document.hidden && session.state.value === "in";

function again(delay: number): void {
  clearTimeout(timer);
  timer = window.setTimeout(() => void sync(), delay);
}

/** Makes the stream what is wanted: none, a new one, or one with other names. */
async function sync(): Promise<void> {
  if (!wanted()) return drop();
  const subscription = { channels: [channel], filters: { assets: named } } as const;
  if (stream) return stream.subscribe(subscription);
  const { signal } = (ending = new AbortController());
  const mine = (stream = new Stream(client, { ...subscription, signal }));
  try {
    for await (const message of mine) if (!receive(message)) break;
  } catch (error) {
    unsupported ||= !signal.aborted && error instanceof ProblemError;
  }
  if (stream === mine) drop();
}

/** Takes a message, and returns whether more are of use. */
function receive(message: Message): boolean {
  if (message.type === "client.interrupted") subscribed = false;
  if (message.type === "subscribed") {
    const channels = (message.data as { channels?: string[] } | null)?.channels;
    subscribed = Array.isArray(channels) && channels.includes(channel);
  }
  // The list of assets has prices, too.
  unsupported = message.type === "error" || (message.type === "subscribed" && !subscribed);
  const price = priceOf(message);
  if (price) handler(price);
  return !unsupported;
}

function drop(): void {
  ending?.abort();
  stream = ending = null;
  subscribed = false;
}

/** Calls f with the prices of the named assets while somebody is signed in and looks. */
export function run(f: (p: Price) => void): void {
  handler = f;
  session.state.subscribe(() => {
    unsupported = false;
    again(0);
  });
  document.addEventListener("visibilitychange", () => again(document.hidden ? settle : 0));
  window.addEventListener("online", () => {
    if (!subscribed) drop(); // which waits
    again(0);
  });
}
