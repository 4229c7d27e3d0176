import { expect, test } from "vitest";
import type { Asset } from "../api/types";
import { assets, priceOf } from "./prices";

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
