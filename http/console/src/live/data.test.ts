import { beforeEach, expect, test, vi } from "vitest";
import type { SignalState } from "../api/types";
import { make } from "./fixture";
import { readFilters } from "./filters";

const answers: ((page: unknown) => void)[] = [];
vi.mock("../api/client", async (original) => ({
  ...(await original<object>()),
  get: () => new Promise((resolve) => answers.push(resolve)),
}));
vi.stubGlobal("document", { hidden: false });
vi.stubGlobal("window", { setTimeout: () => 1, addEventListener: () => {} }); // no list is arranged later by itself

const data = await import("./data");
const { waiting } = await import("./order");
const page = (...signals: SignalState[]) => ({ signals, total: signals.length, has_more: false });
const settled = () => new Promise((resolve) => setTimeout(resolve));

beforeEach(() => {
  data.held.value = false;
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

/** Answers what is asked from now on until the promise is settled: the lists of open and of closed signals in turns. */
async function answerAll(loaded: Promise<unknown>, open: SignalState[], closed: SignalState[] = []) {
  const first = answers.length;
  for (let n = first; n < first + 2; n++) {
    await settled();
    answers[n - first]?.(page(...((n - first) % 2 === 0 ? open : closed)));
  }
  await loaded;
}

test("what was asked for before the list was held is shown, but nothing that came later", async () => {
  await loadWith([make("a")], [], () => {});
  answers.length = 0;
  const asked = data.load();
  await settled();
  data.held.value = true;
  data.event({ type: "signal.new", id: "20-0", data: { ...make("late") } });
  answers[0]!(page(make("late"), make("b"), make("a"))); // made after the signal that the stream brought
  await settled();
  answers[1]!(page());
  await asked;
  expect(data.order.value.open.toSorted()).toEqual(["a", "b"]);
  expect(waiting.value).toEqual({ added: 1, closed: 0 });
  data.showWaiting();
  expect(data.order.value.open.toSorted()).toEqual(["a", "b", "late"]);
  expect(waiting.value).toEqual({ added: 0, closed: 0 });
  data.held.value = false;
});

test("a signal that closes after the list was asked for stays in its place while it is held", async () => {
  await loadWith([make("a"), make("b")], [], () => {});
  answers.length = 0;
  data.held.value = true;
  const asked = data.load();
  await settled();
  const closed = { signal_id: "a", asset: "BTC", close_reason: "stop_loss", exit_price: 90, pnl_percent: -10, pnl_absolute: -10, duration_minutes: 1 };
  data.event({ type: "signal.closed", id: "21-0", timestamp: "2026-11-21T10:00:00.000Z", data: closed });
  await answerAll(asked, [make("b")], [make("a", { status: "closed", closed_at: "2026-11-21T10:00:00.000Z" })]);
  expect(data.order.value.open.toSorted()).toEqual(["a", "b"]);
  expect(data.order.value.closed).toEqual([]);
  expect(waiting.value).toEqual({ added: 0, closed: 1 });
  data.held.value = false;
});

test("what waited before the list was asked for is shown", async () => {
  await loadWith([make("a")], [], () => {});
  answers.length = 0;
  data.held.value = true;
  data.event({ type: "signal.new", id: "22-0", data: { ...make("early") } });
  expect(data.order.value.open).toEqual(["a"]);
  await answerAll(data.load(), [make("a"), make("early")]);
  expect(data.order.value.open.toSorted()).toEqual(["a", "early"]);
  data.held.value = false;
});

test("a reload that overtakes what was asked for shows what was asked for, and nothing that came later", async () => {
  await loadWith([make("a")], [], () => {});
  answers.length = 0;
  const asked = data.load();
  await settled();
  data.held.value = true;
  data.event({ type: "signal.new", id: "23-0", data: { ...make("late") } });
  const reloaded = data.reload(); // the stream had a gap meanwhile
  await settled();
  answers[0]!(page(make("a"))); // of the first, which is out of date
  answers[1]!(page(make("late"), make("b")));
  await settled();
  answers.slice(2).forEach((answer) => answer(page()));
  await Promise.all([asked, reloaded]);
  expect(data.order.value.open).toEqual(["b"]);
  expect(waiting.value).toEqual({ added: 1, closed: 0 });
  data.held.value = false;
});

test("older signals that are loaded join a held list without what waits", async () => {
  const end = (id: string, at: string) => make(id, { status: "closed", closed_at: at });
  const loaded = data.reload();
  await settled();
  answers[0]!(page(make("a")));
  await settled();
  answers[1]!({ signals: [end("x", "2026-11-21T10:00:00.000Z")], total: 2, has_more: true });
  await loaded;
  answers.length = 0;
  data.held.value = true;
  data.event({ type: "signal.new", id: "24-0", data: { ...make("late") } });
  const more = data.loadOlder();
  await settled();
  answers[0]!(page(end("y", "2026-11-21T09:00:00.000Z")));
  await more;
  expect(data.order.value).toEqual({ open: ["a"], closed: ["x", "y"] });
  expect(waiting.value).toEqual({ added: 1, closed: 0 });
  data.held.value = false;
});

const sound = { ...make("x") };
test.each([
  ["signal.new", null],
  ["signal.new", {}],
  ["signal.new", { ...sound, asset: 5 }],
  ["signal.new", { ...sound, confidence: "0.5" }],
  ["signal.new", { ...sound, entry_price: Infinity }],
  ["signal.new", { ...sound, metadata: null }],
  ["signal.updated", { signal_id: "a", confidence: null, updated_at: "2026-11-21T10:00:00.000Z" }],
  ["signal.closed", { signal_id: "a", exit_price: "90" }],
  ["system.notification", { severity: "info" }],
])("%s with %j changes nothing and is counted", (type, members) => {
  data.store.put(make("a"));
  expect(() => data.event({ type, id: "30-0", data: members })).toThrow(TypeError);
  expect(["open" as const, "closed" as const].flatMap((status) => data.store.newestFirst(status)).map((row) => row.peek())).toEqual([make("a")]);
});

test("a type of another version is no mistake", () => {
  data.event({ type: "signal.split", id: "31-0", data: null });
  expect(data.store.size).toBe(0);
});

test("a page that was hidden for too many events loads the list, and still has the notices", async () => {
  await loadWith([make("a")], [], () => {});
  answers.length = 0;
  const heard: (string | null)[] = [];
  const leave = data.onEvent((m) => heard.push(m?.type ?? null));
  const notice = (n: number) => data.event({ type: "system.notification", data: { message: `notice ${n}`, severity: "info" } });
  vi.stubGlobal("document", { hidden: true });
  notice(1);
  for (let n = 0; n < 2100; n++) data.event({ type: "signal.new", id: `30-${n}`, data: { ...make(`many${n}`) } });
  notice(2);
  vi.stubGlobal("document", { hidden: false });
  data.showUnseen();
  expect(data.notices.value.slice(0, 2).map((n) => n.text)).toEqual(["notice 2", "notice 1"]);
  expect(data.store.get("many0")).toBeUndefined(); // nothing of a part
  expect(heard).toEqual([null]);
  await answerAll(Promise.resolve(), [make("many2099"), make("many0")]);
  await settled();
  expect(data.order.value.open.toSorted()).toEqual(["many0", "many2099"]);
  data.showUnseen(); // has nothing left to do
  expect(answers.length).toBe(2);
  leave();
});

test("what comes while the page is hidden is applied when it is seen", () => {
  vi.stubGlobal("document", { hidden: true });
  data.event({ type: "signal.new", id: "32-0", data: { ...make("a") } });
  expect(data.store.size).toBe(0);
  vi.stubGlobal("document", { hidden: false });
  data.showUnseen();
  expect(data.store.size).toBe(1);
});

test("filters that the address does not change are the same filters", () => {
  expect(JSON.stringify(readFilters({}))).toBe(JSON.stringify(data.filters.value));
});

test("a listener gets the events of signals that are not listed", () => {
  const got: string[] = [];
  const stop = data.onEvent((m) => got.push(m!.id!));
  const update = { type: "signal.updated", data: { signal_id: "older", confidence: 0.5, updated_at: "2026-11-21T10:00:00.000Z" } };
  data.event({ ...update, id: "5-0" });
  stop();
  data.event({ ...update, id: "6-0" });
  expect(got).toEqual(["5-0"]);
});
