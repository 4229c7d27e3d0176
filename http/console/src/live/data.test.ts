import { beforeEach, expect, test, vi } from "vitest";
import type { SignalState } from "../api/types";
import { make } from "./fixture";

const answers: ((page: unknown) => void)[] = [];
vi.mock("../api/client", async (original) => ({
  ...(await original<object>()),
  get: () => new Promise((resolve) => answers.push(resolve)),
}));
vi.stubGlobal("document", { hidden: true });

const data = await import("./data");
const page = (...signals: SignalState[]) => ({ signals, total: signals.length, has_more: false });
const settled = () => new Promise((resolve) => setTimeout(resolve));

beforeEach(() => {
  answers.length = 0;
  data.store.clear();
});

async function loadWith(open: SignalState[], closed: SignalState[], between: () => void) {
  const loaded = data.load(true);
  await settled();
  between();
  answers[0]!(page(...open));
  await settled();
  answers[1]!(page(...closed));
  await loaded;
}

test("what the stream brings while the list is loaded is kept", async () => {
  const { status, ...fields } = make("b");
  await loadWith([make("a")], [], () => data.event({ type: "signal.new", id: "1-0", data: { ...fields } }));
  expect(status).toBe("open");
  expect(data.order.value.open.toSorted()).toEqual(["a", "b"]);
});

test("a signal that closes while the list is loaded is closed", async () => {
  const closed = { signal_id: "a", asset: "BTC", close_reason: "stop_loss", exit_price: 90, pnl_percent: -10, pnl_absolute: -10, duration_minutes: 1 };
  await loadWith([make("a")], [], () => data.event({ type: "signal.closed", id: "2-0", timestamp: "2026-11-21T10:00:00.000Z", data: closed }));
  expect(data.order.value).toEqual({ open: [], closed: ["a"] });
});

test("a reload forgets what is no longer listed", async () => {
  await loadWith([make("a")], [], () => {});
  answers.length = 0;
  await loadWith([make("b")], [], () => {});
  expect(data.order.value.open).toEqual(["b"]);
});

test("a listener gets the events of signals that are not listed", () => {
  const got: string[] = [];
  const stop = data.onEvent((m) => got.push(m.id!));
  const update = { type: "signal.updated", data: { signal_id: "older", confidence: 0.5, updated_at: "2026-11-21T10:00:00.000Z" } };
  data.event({ ...update, id: "5-0" });
  stop();
  data.event({ ...update, id: "6-0" });
  expect(got).toEqual(["5-0"]);
});
