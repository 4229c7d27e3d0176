import { expect, test } from "vitest";
import type { Asset } from "../api/types";
import { priceOf as readPrice } from "../stream/prices";
import { assets, assetsOf, merge, priceOf } from "./prices";

test("a price from before a signal is not its price", () => {
  const s = { asset: "BTC", created_at: "2026-11-21T09:30:00.000Z", entry_price: 100 };
  const at = (last_price_at: string | null) =>
    (assets.value = new Map([["BTC", { asset: "BTC", last_price: 90, last_price_at } as Asset]]));
  expect(priceOf(s)).toBe(100);
  at("2026-11-21T09:29:59.000Z");
  expect(priceOf(s)).toBe(100);
  at("2026-11-21T09:30:01.000Z");
  expect(priceOf(s)).toBe(90);
  at(null);
  expect(priceOf(s)).toBe(100);
});

const listed = (name: string, last_price: number | null, last_price_at: string | null) =>
  ({ asset: name, source: "binance", last_price, last_price_at }) as Asset;

test("streamed prices replace older ones of listed assets", () => {
  const list = new Map([
    ["BTC", listed("BTC", 90, "2026-11-21T09:30:01.000Z")],
    ["ETH", listed("ETH", 9, "2026-11-21T09:30:05.000Z")],
    ["SOL", listed("SOL", null, null)],
  ]);
  const at = "2026-11-21T09:30:02.000Z";
  const next = merge(list, ["BTC", "ETH", "SOL", "DOGE"].map((asset) => ({ asset, price: 1, at, source: "coinbase" })));
  expect([...next.values()].map((a) => [a.asset, a.last_price, a.source])).toEqual([
    ["BTC", 1, "coinbase"],
    ["ETH", 9, "binance"],
    ["SOL", 1, "coinbase"],
  ]);
  expect(list.get("BTC")?.last_price).toBe(90);
});

test("assets are named once, texts have none, and a limit is reported", () => {
  const of = (asset: string, entry_price: number | null = 1) => ({ asset, created_at: "", entry_price });
  expect(assetsOf([of("BTC"), of("standing desk", null), of("ETH"), of("BTC")])).toEqual({ names: ["BTC", "ETH"], all: true });
  expect(assetsOf([of("BTC"), of("ETH"), of("SOL")], 2)).toEqual({ names: ["BTC", "ETH"], all: false });
  expect(assetsOf([of("BTC"), of("ETH"), of("BTC")], 2)).toEqual({ names: ["BTC", "ETH"], all: true });
});

test("only whole messages are prices", () => {
  const data = { asset: "BTC", price: 1, at: "2026-11-21T09:30:01.000Z", source: "simulated" };
  expect(readPrice({ type: "market.price", data })).toEqual(data);
  for (const bad of [null, {}, 1, { ...data, price: "1" }, { ...data, price: 0 }, { ...data, at: "soon" }, { ...data, asset: null }])
    expect(readPrice({ type: "market.price", data: bad })).toBeNull();
  expect(readPrice({ type: "signal.new", data })).toBeNull();
});
