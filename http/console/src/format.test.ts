import { describe, expect, test } from "vitest";
import * as format from "./format";
import examples from "./format.json";
import { parseLimit } from "./api/client";
import { linkTo, parsePlace } from "./router";
import { bodyOf, fieldsOf } from "./run/schema";
import { withoutHeader } from "./pages/content";

describe("format", () => {
  test.each(examples.prices)("price $value of $asset beside $levels", ({ value, class: assetClass, levels, text }) =>
    expect(format.price(value, assetClass, levels).replaceAll(",", "")).toBe(text),
  );

  test("a price has groups, a missing one is none", () => {
    expect(format.price(64250.126)).toBe("64,250.13");
    expect(format.price(null)).toBe("–");
    expect(format.price(NaN)).toBe("–");
  });

  test.each([
    [0.416, "+0.42 R"],
    [-1, "−1.00 R"],
    [-0.001, "0.00 R"],
    [null, "–"],
  ])("r %s", (value, want) => expect(format.r(value)).toBe(want));

  test("a change has a sign, a share has none", () => {
    expect(format.change(3.1517)).toBe("+3.15 %");
    expect(format.percent(0.4372, 1)).toBe("43.7 %");
  });

  test.each([
    [900, "1 s"],
    [61_000, "1 m 01 s"],
    [3_600_000, "1 h 00 m"],
    [200_000_000, "2 d 7 h"],
    [-5, "0 s"],
  ])("duration %d", (ms, want) => expect(format.duration(ms)).toBe(want));

  test("the interval of Wilson", () => {
    const [low, high] = format.wilson(128, 312);
    expect(low).toBeCloseTo(0.357, 3);
    expect(high).toBeCloseTo(0.4656, 3);
    expect(format.wilson(0, 0)).toEqual([0, 1]);
  });

  test("a bad time is no time", () => {
    expect(format.time("nosuch")).toBe("–");
    expect(format.utc("2026-11-21T09:30:00.000Z")).toBe("2026-11-21 09:30:00.000 UTC");
  });
});

test("limits of requests", () => {
  expect(parseLimit('"reads";q=3000;w=60', '"reads";r=2996;t=1')).toEqual({ name: "reads", quota: 3000, window: 60, left: 2996 });
  expect(parseLimit('"reads";q=3000;w=60', '"runs";r=1;t=1')).toBeNull();
  expect(parseLimit(null, "nonsense")).toBeNull();
});

describe("places", () => {
  test("reads an address", () => {
    expect(parsePlace("#/signals/sig_1?x=1&y=%C3%A4")).toEqual({ path: ["signals", "sig_1"], query: { x: "1", y: "ä" } });
    expect(parsePlace("")).toEqual({ path: [], query: {} });
    expect(parsePlace("#/%E0%A4%A")).toEqual({ path: ["%E0%A4%A"], query: {} });
  });
  test("keeps what it writes", () => expect(parsePlace(linkTo("live", { asset: "<b>&", status: "" })).query).toEqual({ asset: "<b>&" }));
});

describe("forms", () => {
  const schema = {
    type: "object",
    required: ["asset", "strategy"],
    properties: {
      asset: { type: "string", maxLength: 64 },
      strategy: { enum: ["momentum", "breakout"] },
      timeframe: { type: ["string", "null"], enum: ["1m", "1h", null], default: "1h" },
      async: { type: ["boolean", "null"] },
      parameters: { type: ["object", "null"], properties: { keywords: { type: "array", items: { type: "string" } }, region: { enum: ["us"] } } },
    },
  };
  test("fields of a schema", () => {
    expect(fieldsOf(schema).map((f) => [f.path, f.kind, f.required, f.initial])).toEqual([
      ["asset", "text", true, ""],
      ["strategy", "choice", true, "momentum"],
      ["timeframe", "choice", false, "1h"],
      ["parameters.keywords", "list", false, ""],
      ["parameters.region", "choice", false, ""],
      ["async", "switch", false, ""],
    ]);
  });
  test("a body without empty values", () => {
    const values = { asset: " BTC ", "parameters.keywords": "a, b\nc", async: "false" };
    expect(bodyOf(fieldsOf(schema), values)).toEqual({ asset: "BTC", strategy: "momentum", timeframe: "1h", parameters: { keywords: ["a", "b", "c"] } });
  });
});

test("the lines for programs are left out of a text", () => expect(withoutHeader("---\na: b\n---\n\n# T")).toBe("# T"));
