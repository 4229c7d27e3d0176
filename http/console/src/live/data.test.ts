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
const { waiting } = await import("./order");
const page = (...signals: SignalState[]) => ({ signals, total: signals.length, has_more: false });
const settled = () => new Promise((resolve) => setTimeout(resolve));

beforeEach(() => {
  answers.length = 0;
  for (const id of [...data.store.ids()]) data.store.remove(id);
});

async function loadWith(open: SignalState[], closed: SignalState[], between: () => void) {
  const loaded = data.reload();
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

test("a reload does not move a list that is held", async () => {
  await loadWith([make("a"), make("b")], [], () => {});
  data.held.value = true;
  answers.length = 0;
  await loadWith([make("b"), make("c")], [], () => data.event({ type: "signal.new", id: "3-0", data: { ...make("c") } }));
  expect(data.order.value.open.toSorted()).toEqual(["a", "b"]);
  expect(waiting.value).toEqual({ added: 1, closed: 0 });
  data.showWaiting();
  expect(data.order.value.open.toSorted()).toEqual(["b", "c"]);
  expect(data.store.get("a")).toBeUndefined();
  data.held.value = false;
});

test("a list that the reader asked for is shown though it is held", async () => {
  await loadWith([make("a")], [], () => {});
  data.held.value = true;
  answers.length = 0;
  const [asked, reloaded] = [data.load(), data.reload()];
  for (let n = 0; n < 4; n++) {
    await settled();
    answers[n]?.(page(...(n < 2 ? [make("b")] : [])));
  }
  await Promise.all([asked, reloaded]);
  expect(data.order.value.open).toEqual(["b"]);
  data.held.value = false;
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
