import { expect, test } from "vitest";
import { bucketOf, oddsOf } from "./odds";

const bucket = (count: number, hits: number) => ({ from: 0.4, to: 0.5, count, mean_confidence: 0.43, hit_rate: count > 0 ? hits / count : null });

test("enough closed signals have a share with its interval", () => {
  expect(oddsOf(bucket(312, 128), "momentum signals")).toBe(
    "Of 312 closed momentum signals that said 0.40 to 0.50, 41 % closed in profit (36 to 47 %).",
  );
});

test.each([
  [30, "Of 30 closed energy demand signals that said 0.40 to 0.50, 40 % closed in profit (25 to 58 %)."],
  [29, "Of 29 closed energy demand signals that said 0.40 to 0.50, 12 closed in profit: too few for a share."],
  [0, "No closed energy demand signals that said 0.40 to 0.50 yet."],
])("below 30 closed signals there are counts: %i", (count, want) => {
  expect(oddsOf(bucket(count, 12), "energy demand signals")).toBe(want);
});

test("a confidence between two buckets belongs to the upper one, and 1 to the last", () => {
  const buckets = Array.from({ length: 10 }, (_, i) => ({ ...bucket(i, 0), from: i / 10, to: (i + 1) / 10 }));
  expect([0, 0.4, 0.4999, 0.5, 1].map((c) => bucketOf(buckets, c)?.count)).toEqual([0, 4, 4, 5, 9]);
});
