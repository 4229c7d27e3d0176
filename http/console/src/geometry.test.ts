import fc from "fast-check";
import { expect, test } from "vitest";
import { digitsOf } from "./charts/curve";
import { bucketOf } from "./charts/odds";
import { rangeOf, scaleOf } from "./charts/reliability";
import * as format from "./format";
import { make } from "./live/fixture";
import { inSight, nextRow } from "./live/order";
import { priceStep, priceText } from "./live/prices";
import { at, fitScale, rowScale, scaleFor, targetOf } from "./live/ruler";
import { resultAt } from "./live/store";
import { lastPage, pageSize } from "./pages/deliveries";

// Places that follow from the sizes of a window, a list or a scale: they hold for any of these, not for those of one screen.

const windowOf = {
  top: fc.integer({ min: -2_000_000, max: 2_000_000 }).chain((n) => fc.constantFrom(n, n / 3)), // a zoomed page has fractions
  height: fc.integer({ min: 0, max: 6000 }),
  rowHeight: fc.constantFrom(44, 84, 1, 17.6),
  count: fc.integer({ min: 0, max: 10_000 }),
};
const spare = 8;

const numbered = Array.from({ length: 10_000 }, (_, i) => i);

/** Returns the rows that the page draws of a list of count. */
const drawnOf = (top: number, height: number, rowHeight: number, count: number) =>
  numbered.slice(0, count).slice(...inSight(top, height, rowHeight, count));

test("no more rows are drawn than fit and are spare, and none that is in sight is missing", () => {
  fc.assert(
    fc.property(fc.record(windowOf), ({ top, height, rowHeight, count }) => {
      const drawn = drawnOf(top, height, rowHeight, count);
      expect(drawn.length).toBeLessThanOrEqual(Math.ceil(height / rowHeight) + 1 + 2 * spare);
      const seen = numbered.slice(0, count).filter((i) => (i + 1) * rowHeight > top && i * rowHeight < top + height);
      if (seen.length === 0) return;
      expect(drawn[0]).toBeLessThanOrEqual(seen[0]!);
      expect(drawn.at(-1)).toBeGreaterThanOrEqual(seen.at(-1)!);
    }),
  );
});

test("two lists below each other draw what fits into the window once", () => {
  fc.assert(
    fc.property(fc.record({ ...windowOf, above: windowOf.count }), ({ top, height, rowHeight, count, above }) => {
      const drawn = [drawnOf(top, height, rowHeight, above), drawnOf(top - above * rowHeight, height, rowHeight, count)];
      expect(drawn.flat().length).toBeLessThanOrEqual(Math.ceil(height / rowHeight) + 2 + 2 * spare);
    }),
  );
});

test("the keys step from row to row, begin with one in sight, and end at the ends", () => {
  const tops = fc.array(fc.integer({ min: -400, max: 2000 }), { maxLength: 60 }).map((list) => list.sort((a, b) => a - b));
  fc.assert(
    fc.property(tops, fc.integer({ min: -1, max: 59 }), fc.constantFrom(1, -1), fc.integer({ min: 0, max: 300 }), (list, focused, by, head) => {
      const here = Math.min(focused, list.length - 1);
      const visible = list.findIndex((top) => top >= head);
      const wanted = here >= 0 ? here + by : visible < 0 ? list.length - 1 : visible;
      expect(nextRow(list, here, by, head)).toBe(list.length === 0 ? -1 : Math.min(list.length - 1, Math.max(0, wanted)));
    }),
  );
});

const price = fc.double({ min: 1e-7, max: 1e7, noNaN: true });
const share = fc.double({ min: 0.001, max: 0.5, noNaN: true });

/** A signal of any price, with any distances, that may have gone anywhere. */
const signals = fc
  .record({ entry: price, risk: share, reward: share, long: fc.boolean(), worst: fc.double({ min: -60, max: 0, noNaN: true }), best: fc.double({ min: 0, max: 60, noNaN: true }), moved: fc.double({ min: 0.01, max: 100, noNaN: true }) })
  .map(({ entry, risk, reward, long, worst, best, moved }) => {
    const sign = long ? 1 : -1;
    const levels = { entry_price: entry, stop_loss: entry * (1 - sign * risk), take_profit: entry * (1 + sign * reward) };
    return { s: make("a", { ...levels, direction: long ? "long" : "short", mae_r: worst, mfe_r: best }), price: entry * moved };
  });

test("a ruler keeps stop, entry and target in their order and all of it inside", () => {
  fc.assert(
    fc.property(signals, ({ s, price }) => {
      fitScale([targetOf(s)!]);
      const own = scaleFor(s, resultAt(s, price));
      for (const scale of [rowScale.peek(), own]) {
        const places = [-1, 0, targetOf(s)!].map((r) => at(scale, r));
        expect(places.every((p) => p >= 0 && p <= 100)).toBe(true);
        expect(places[0]).toBeLessThan(places[1]!);
        expect(places[1]).toBeLessThan(places[2]!);
        expect(at(scale, s.mae_r!)).toBeLessThanOrEqual(at(scale, s.mfe_r!)); // or a bar would have a negative width
      }
      const moved = at(own, resultAt(s, price)!);
      expect(moved).toBeGreaterThan(0);
      expect(moved).toBeLessThan(100);
    }),
  );
});

const buckets = fc
  .array(fc.record({ count: fc.integer({ min: 0, max: 100_000 }), hits: share.map((v) => v * 2), said: share.map((v) => v * 2) }), { minLength: 1, maxLength: 10 })
  .map((list) => list.map((b, i) => {
    const [from, to] = [i / list.length, (i + 1) / list.length];
    return { from, to, count: b.count, hit_rate: b.count > 0 ? Math.round(b.hits * b.count) / b.count : null, mean_confidence: from + (to - from) * b.said };
  }));

test("the reliability diagram has a scale with ticks from its one end to its other, and all marks inside", () => {
  fc.assert(
    fc.property(buckets, (list) => {
      const used = list.filter((b) => b.count > 0);
      const [from, to] = rangeOf(used);
      expect(from).toBeGreaterThanOrEqual(0);
      expect(to).toBeLessThanOrEqual(1);
      const { x, y, ticks } = scaleOf(from, to);
      expect(ticks[0]).toBeCloseTo(from);
      expect(ticks.at(-1)).toBeCloseTo(to);
      expect(ticks.length).toBeLessThanOrEqual(7);
      for (const b of used)
        for (const v of [b.hit_rate!, b.mean_confidence]) {
          expect(x(v)).toBeGreaterThanOrEqual(x(from));
          expect(x(v)).toBeLessThanOrEqual(x(to));
          expect(y(v)).toBeGreaterThanOrEqual(y(to));
          expect(y(v)).toBeLessThanOrEqual(y(from));
        }
    }),
  );
});

test("every chance belongs to one bucket", () => {
  fc.assert(
    fc.property(buckets, fc.double({ min: 0, max: 1, noNaN: true }), (list, confidence) => {
      const found = bucketOf(list, confidence)!;
      expect(found.from).toBeLessThanOrEqual(confidence);
      expect(found.to).toBeGreaterThanOrEqual(confidence);
    }),
  );
});

test("the last page of a list has its last item, and no page begins before the list", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1e6 }), (total) => {
      const offset = lastPage(total);
      expect(offset % pageSize).toBe(0);
      expect(offset).toBeGreaterThanOrEqual(0);
      if (total > 0) expect(total - offset).toBeGreaterThan(0);
      expect(total - offset).toBeLessThanOrEqual(pageSize);
    }),
  );
});

test("the labels of an axis differ as its values do", () => {
  const step = fc.tuple(fc.constantFrom(1, 2, 2.5, 5), fc.integer({ min: -7, max: 6 })).map(([n, exponent]) => n * 10 ** exponent);
  fc.assert(
    fc.property(step, fc.integer({ min: -500, max: 500 }), (step, from) => {
      const labels = Array.from({ length: 8 }, (_, i) => format.r((from + i) * step, digitsOf(step)));
      expect(new Set(labels).size).toBe(8);
    }),
  );
});

test("the step of a price's axis is that of its digits, and all of its levels differ by it", () => {
  fc.assert(
    fc.property(signals, ({ s }) => {
      const step = priceStep(s);
      expect(step).toBeLessThanOrEqual(Math.max(1e-10, s.entry_price! / 100));
      expect(priceText(s.entry_price! + step, s)).not.toBe(priceText(s.entry_price, s));
    }),
  );
});
