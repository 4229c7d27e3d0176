import { describe, expect, test } from "vitest";
import { make } from "./fixture";
import { asQuery, noFilters, passes, readFilters } from "./filters";
import { arrange, inSight } from "./order";
import { at, fitScale, rowScale, scaleFor, targetOf } from "./ruler";
import { capacity, costOf, netOf, resultAt, Store } from "./store";

const closing = (id: string, exit: number) => ({
  type: "signal.closed",
  id: "2-0",
  timestamp: "2026-11-21T10:00:00.000Z",
  data: { signal_id: id, asset: "BTC", close_reason: "take_profit", exit_price: exit, pnl_percent: 20, pnl_absolute: exit - 100, duration_minutes: 30 },
});

describe("store", () => {
  test("applies the life of a signal", () => {
    const store = new Store();
    const { signal_id, agent_id, asset, strategy, direction, confidence, entry_price, stop_loss, take_profit, metadata, created_at } = make("a");
    const data = { signal_id, agent_id, asset, strategy, direction, confidence, entry_price, stop_loss, take_profit, metadata, created_at };
    expect(store.apply({ type: "signal.new", data })).toBe("added");
    expect(store.apply({ type: "signal.new", data })).toBe("none");
    expect(store.apply({ type: "signal.updated", data: { signal_id: "a", confidence: 0.6, updated_at: "2026-11-21T09:40:00.000Z" } })).toBe("updated");
    expect(store.get("a")!.peek().confidence).toBe(0.6);
    expect(store.apply(closing("a", 120))).toBe("closed");
    const s = store.get("a")!.peek();
    expect(s).toMatchObject({ status: "closed", r: 2, confidence: 0.42, final_confidence: 0.6, closed_at: "2026-11-21T10:00:00.000Z" });
    expect(store.apply(closing("a", 90))).toBe("none");
  });

  test("ignores what it does not know", () => {
    const store = new Store();
    expect(store.apply(closing("nosuch", 1))).toBe("none");
    expect(store.apply({ type: "signal.other", data: {} })).toBe("none");
    expect(store.size).toBe(0);
  });

  test("a page of the list that is older than the stream changes nothing", () => {
    const store = new Store();
    store.put(make("a", { confidence: 0.7, updated_at: "2026-11-21T10:00:00.000Z" }));
    store.put(make("a", { confidence: 0.5 }));
    expect(store.get("a")!.peek().confidence).toBe(0.7);
    store.apply(closing("a", 120));
    store.put(make("a", { updated_at: "2026-11-21T11:00:00.000Z" }));
    expect(store.get("a")!.peek().status).toBe("closed");
  });

  test("keeps at most its capacity, and open signals longer than closed ones", () => {
    const store = new Store();
    store.put(make("open"));
    for (let i = 0; i < capacity + 5; i++) store.put(make(`c${i}`, { status: "closed" }));
    expect(store.size).toBe(capacity);
    expect(store.get("open")).toBeDefined();
    expect(store.get("c0")).toBeUndefined();
  });

  test("drops the oldest, in whatever order they came", () => {
    const store = new Store();
    const at = (i: number) => new Date(Date.UTC(2026, 10, 21) + i).toISOString();
    for (let i = 99; i >= 0; i--) store.put(make(`s${i}`, { created_at: at(i) })); // as the API lists them
    for (let i = 100; i < capacity + 3; i++) store.put(make(`s${i}`, { created_at: at(i) }));
    const { open } = arrange(store, noFilters);
    expect([open.length, open[0], open.at(-1)]).toEqual([capacity, `s${capacity + 2}`, "s3"]);
  });

  test("a row that is shown is kept beyond the capacity, and changes, until the list moves", () => {
    const store = new Store((id) => id === "a" || id === "b");
    for (const id of ["a", "b", "c"]) store.put(make(id, { created_at: "2026-11-21T09:00:00.000Z" }));
    for (let i = 0; i < capacity; i++) store.put(make(`n${i}`));
    expect([store.size, store.get("c")]).toEqual([capacity, undefined]);
    expect(store.apply(closing("a", 120))).toBe("closed");
    expect(store.get("a")!.peek().status).toBe("closed");
    const { open, closed } = arrange(store, noFilters);
    expect([open.length, closed]).toEqual([capacity, []]);
    store.release();
    expect([store.get("a"), store.get("b")]).toEqual([undefined, undefined]);
  });
});

describe("results", () => {
  test.each([
    ["long", 100, 90, 110, 1],
    ["long", 100, 90, 90, -1],
    ["short", 100, 110, 80, 2],
  ])("%s from %d with stop %d at %d is %d R", (direction, entry, stop, price, want) => {
    const s = make("a", { direction: direction as "long", entry_price: entry, stop_loss: stop });
    expect(resultAt(s, price)).toBeCloseTo(want);
  });

  test("costs are those of the estimate, at the prices of entry and exit", () => {
    expect(costOf(make("a"))).toBeCloseTo(0.05);
    expect(costOf(make("a"), 120)).toBeCloseTo(0.055);
    expect(netOf(make("a", { status: "closed", r: 2, exit_price: 120 }))).toBeCloseTo(1.945);
    expect(netOf(make("a", { r: 2, exit_price: 120, metadata: { indicators: [], reasoning: "" } }))).toBeNull();
  });

  test("texts have no result", () => {
    const s = make("a", { entry_price: null, stop_loss: null, take_profit: null });
    expect(resultAt(s, 5)).toBeNull();
    expect(targetOf(s)).toBeNull();
  });
});

describe("filters", () => {
  test("reads what makes sense and drops the rest", () => {
    expect(readFilters({ asset: "BTC", direction: "up", confidence: "1e9", status: "open", nosuch: "1" })).toEqual({ ...noFilters, asset: "BTC", status: "open" });
    expect(readFilters({ confidence: "45" }).confidence).toBe("45");
    expect(readFilters({ asset: "x".repeat(400) }).asset).toHaveLength(64);
  });

  test.each([
    [{ asset: "bt" }, true],
    [{ asset: "eth" }, false],
    [{ direction: "short" }, false],
    [{ confidence: "42" }, true],
    [{ confidence: "43" }, false],
    [{ status: "closed" }, false],
    [{ agent: "weather" }, false],
    [{ strategy: "momentum", status: "open" }, true],
  ])("%o", (f, want) => expect(passes({ ...noFilters, ...f }, make("a"))).toBe(want));

  test("asks the service only for whole names", () => {
    const assets = new Set(["BTC", "ETH"]);
    expect(asQuery({ ...noFilters, asset: "b" }, assets).asset).toBe("");
    expect(asQuery({ ...noFilters, asset: "btc", confidence: "45" }, assets)).toMatchObject({ asset: "BTC", min_confidence: "0.45" });
  });
});

describe("order", () => {
  test("open signals come first, the newest of each first", () => {
    const store = new Store();
    store.put(make("1", { created_at: "2026-11-21T09:00:00.000Z" }));
    store.put(make("2", { created_at: "2026-11-21T09:01:00.000Z" }));
    store.put(make("3", { status: "closed", closed_at: "2026-11-21T09:02:00.000Z" }));
    store.put(make("4", { status: "closed", closed_at: "2026-11-21T09:03:00.000Z" }));
    expect(arrange(store, noFilters)).toEqual({ open: ["2", "1"], closed: ["4", "3"] });
    expect(arrange(store, { ...noFilters, status: "closed" })).toEqual({ open: [], closed: ["4", "3"] });
  });

  test.each([
    [0, 440, 10_000, [0, 18]],
    [44_000, 440, 10_000, [992, 1018]],
    [44_000, 440, 5, [5, 5]],
    [-500, 440, 10_000, [0, 7]],
    [-6000, 440, 10_000, [0, 0]],
  ])("from %d px, %d px high, of %d rows", (top, height, count, want) => {
    expect(inSight(top, height, 44, count)).toEqual(want);
  });
});

describe("ruler", () => {
  test("the target is to scale", () => {
    expect(targetOf(make("a"))).toBeCloseTo(2);
    expect(targetOf(make("a", { direction: "short", stop_loss: 110, take_profit: 85 }))).toBeCloseTo(1.5);
  });

  test("what lies beyond the scale is at its end", () => {
    expect(at({ from: -1, to: 3 }, -9)).toBe(0);
    expect(at({ from: -1, to: 3 }, 1)).toBe(50);
    expect(at({ from: -1, to: 3 }, 9)).toBe(100);
  });

  test("rows share a scale that shows the farthest target", () => {
    fitScale([1.5, 2.8]);
    expect(rowScale.value.to).toBeCloseTo(3.25);
    fitScale([]);
    expect(rowScale.value.to).toBeCloseTo(1.25);
    fitScale([1e9]);
    expect(rowScale.value.to).toBeCloseTo(5.25);
  });

  test("a signal's own scale shows a fall through the stop", () => {
    expect(scaleFor(make("a", { mae_r: -4 }), null).from).toBeLessThan(-4);
  });
});
