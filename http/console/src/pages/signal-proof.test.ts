import fc from "fast-check";
import { expect, test } from "vitest";
import { make } from "../live/fixture";
import { agrees, recompute } from "./signal-proof";

const round = (value: number, unit: number) => Math.round(value / unit) * unit;

test.each([1e-6, 1.0833, 1e6])("at a price of %d what is listed agrees, and what is forged does not", (price) => {
  const share = fc.integer({ min: 5, max: 400 }).map((n) => n / 1000);
  fc.assert(
    fc.property(share, share, fc.constantFrom("long" as const, "short" as const), fc.constantFrom("pnl_absolute" as const, "pnl_percent" as const, "r" as const), (risk, gain, direction, forged) => {
      const sign = direction === "long" ? 1 : -1;
      const [entry_price, stop_loss, exit_price] = [price, round(price * (1 - sign * risk), 1e-8), round(price * (1 + gain), 1e-8)];
      const moved = sign * (exit_price - entry_price);
      fc.pre(moved !== 0 && stop_loss !== entry_price);
      const listed = {
        pnl_absolute: round(moved, 1e-8), pnl_percent: round((moved / entry_price) * 100, 1e-4), r: round(moved / Math.abs(entry_price - stop_loss), 1e-4),
      };
      const closed = (more: object) => make("a", { status: "closed", direction, entry_price, stop_loss, exit_price, ...listed, ...more });
      expect(recompute(closed({})).map(agrees)).toEqual([true, true, true]);
      const more = listed[forged] / 2 + Math.sign(listed[forged]) * 2 * (forged === "pnl_absolute" ? 1e-8 : 1e-4);
      expect(recompute(closed({ [forged]: listed[forged] + more })).map(agrees)).toContain(false);
    }),
  );
});
