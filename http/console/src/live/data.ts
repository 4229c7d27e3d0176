import { batch, signal } from "@preact/signals";
import { explain, get } from "../api/client";
import type { SignalState } from "../api/types";
import * as session from "../session";
import * as stream from "../stream/client";
import type { Message } from "../stream/client";
import { noFilters, asQuery, passes, type Filters } from "./filters";
export { order } from "./order";
import { arrange, isShown, type Order, order, waiting } from "./order";
import { assetNames, follow } from "./prices";
import { fitScale, targetOf } from "./ruler";
import { capacity, Store } from "./store";

/** The signals of the page. */
export const store = new Store(isShown);

export const filters = signal<Filters>(noFilters);

/** Whether the reader asked the list to stand still. */
export const held = signal(false);

/** Whether the reader is in the middle of the list, so that it must not move. */
export const reading = signal(false);

export const loading = signal(true);
export const failed = signal("");

/** Signals of the account that match, and whether older ones can be loaded. */
export const older = signal({ more: false, busy: false });

/** Counts that the header shows; they are those of the account, not of the page. */
export const notices = signal<{ text: string; severity: string; at: string }[]>([]);

/** A sentence for screen readers, at most one every few seconds. */
export const announcement = signal("");

interface Page {
  signals: SignalState[];
  total: number;
  has_more: boolean;
}

const pageSize = 100;
const maxOpenPages = 20;
const flushEvery = 250;
const announceEvery = 10_000;
const maxNotices = 20;
const repeatAfter = 15_000; // where the list could not be loaded
const patience = 2000; // before the list is loaded without the stream

let closedOffset = 0;
let generation = 0;
let dirty = false;
let flushTimer = 0;
let repeatTimer = 0;
const tally = { added: 0, closed: 0 };

/** Why the list is being loaded: the reader waits for it, or the stream has a gap and no row is certain any more. */
const why = { asked: true, gap: false };

/** Rows that the last reload no longer had, but that the reader still sees. */
let gone: string[] = [];

/** What the stream brought while the list is being loaded: the answer may be older. */
let meanwhile: Message[] | null = null;

// What moves a list that is held or being read: only its reader. A list gains, loses or reorders rows when its reader
// lets it go, presses the count of what waits, or asks for another list: by a filter, by "Try again", by opening the page.
// The answer may come much later, and the reader may have held the list in between. It is shown nevertheless, because it
// was asked for; but only as it was at that time: what the stream has brought since waits and is counted. A reload of the
// stream's own, after a gap, waits as a whole.

/** What the stream has brought since the reader asked for the list that is being loaded. */
const later = { added: new Set<string>(), closed: new Set<string>() };

function forgetLater(): void {
  later.added.clear();
  later.closed.clear();
}

/** Lists what waits and forgets the count. */
export function showWaiting(): void {
  batch(() => {
    forgetLater(); // the reader has now asked for it
    dropGone();
    show(arrange(store, filters.value));
    waiting.value = { added: 0, closed: 0 };
  });
}

function* openSignals(): Generator<SignalState> {
  for (const id of order.value.open) {
    const row = store.get(id);
    if (row) yield row.peek();
  }
}

/** Shows what the reader asked for to one who holds the list, and counts what came later. */
function showAsked(): void {
  dropGone();
  const next = arrange(store, filters.value);
  const open = next.open.filter((id) => !later.added.has(id));
  for (const id of later.closed) {
    const s = store.get(id)?.peek();
    if (s && filters.value.status !== "closed" && passes({ ...filters.value, status: "" }, s) && !later.added.has(id)) open.push(id);
  }
  const created = (id: string) => store.get(id)?.peek().created_at ?? "";
  if (later.closed.size > 0) open.sort((a, b) => (created(a) < created(b) ? 1 : -1));
  show({ open, closed: next.closed.filter((id) => !later.added.has(id) && !later.closed.has(id)) });
  dirty ||= later.added.size + later.closed.size > 0;
  countWaiting();
  forgetLater();
}

function dropGone(): void {
  gone.forEach((id) => store.remove(id));
  gone = [];
}

/** Lists what is given, and no longer keeps what was shown before. */
function show(next: Order): void {
  order.value = next;
  store.release();
  fitScale(farTargets());
}

function* farTargets(): Generator<number> {
  for (const id of [...order.value.open, ...order.value.closed.slice(0, 200)]) {
    const row = store.get(id);
    const target = row && targetOf(row.peek());
    if (Number.isFinite(target)) yield target!;
  }
}

/** The list is arranged at most four times a second, and only where nobody is reading. */
function flushSoon(): void {
  dirty = true;
  if (flushTimer || document.hidden) return;
  flushTimer = window.setTimeout(() => {
    flushTimer = 0;
    flush(); // not in a frame: scripts and layout are two tasks then, and each is short
  }, flushEvery);
}

function flush(): void {
  if (!dirty || document.hidden || held.value || reading.value) return;
  dirty = false;
  showWaiting();
}

/** Counts how the list would differ from the one that is shown. */
function countWaiting(): void {
  const shown = order.value;
  const [open, closed] = [new Set(shown.open), new Set(shown.closed)];
  const next = arrange(store, filters.value);
  const added = [...next.open, ...next.closed].filter((id) => !open.has(id) && !closed.has(id));
  waiting.value = { added: added.length, closed: next.closed.filter((id) => open.has(id)).length };
}

function fetchPage(status: string, offset: number): Promise<Page> {
  const query = asQuery({ ...filters.value, status }, new Set(assetNames.value));
  return get<Page>("/v1/signals", { ...query, view: "full", limit: pageSize, offset });
}

function take(page: Page): void {
  for (const s of page.signals) store.put(s);
}

/** The filters of the list that was asked for last, or null before the first one. */
let askedFor: string | null = null;

/** Loads the open signals and the newest closed ones, because the reader asked for others. */
export function load(): Promise<void> {
  why.asked = true;
  forgetLater();
  return fetchList();
}

/** Loads the list if the filters have changed since it was asked for. */
export function loadChanged(): void {
  if (askedFor !== null && askedFor !== JSON.stringify(filters.value)) void load();
}

/** Loads the list again after a gap of the stream. It does not move where somebody reads it. */
export function reload(): Promise<void> {
  why.gap = true;
  return fetchList();
}

/** Takes what the API lists. What the stream brings meanwhile is kept. */
async function fetchList(): Promise<void> {
  const mine = ++generation;
  const wanted = filters.value.status;
  askedFor = JSON.stringify(filters.value);
  clearTimeout(repeatTimer);
  meanwhile ??= [];
  loading.value = true;
  failed.value = "";
  try {
    const pages: Page[] = [];
    if (wanted !== "closed") pages.push(...(await openPages(mine)));
    const closed = wanted === "open" ? null : await fetchPage("closed", 0);
    if (mine !== generation) return;
    if (closed) pages.push(closed);
    batch(() => {
      const before = new Set(store.ids());
      for (const page of pages) {
        take(page);
        for (const s of page.signals) before.delete(s.signal_id);
      }
      for (const m of meanwhile ?? []) {
        store.apply(m);
        before.delete((m.data as { signal_id: string }).signal_id);
      }
      if (why.gap) gone = [...before];
      meanwhile = null;
      closedOffset = closed?.signals.length ?? 0;
      older.value = { more: closed?.has_more ?? false, busy: false };
      loading.value = false;
      if (!(held.value || reading.value)) showWaiting();
      else if (why.asked) showAsked();
      else {
        dirty = true;
        countWaiting();
      }
      why.asked = why.gap = false;
    });
  } catch (error) {
    if (mine !== generation) return;
    meanwhile = null;
    loading.value = false;
    older.value = { ...older.value, busy: false };
    failed.value = explain(error);
    repeatTimer = window.setTimeout(() => void (document.hidden || fetchList()), repeatAfter);
  }
}

async function openPages(mine: number): Promise<Page[]> {
  const pages: Page[] = [];
  for (let n = 0; n < maxOpenPages && mine === generation; n++) {
    const page = await fetchPage("open", n * pageSize);
    pages.push(page);
    if (!page.has_more) break;
  }
  return pages;
}

/** Loads the next closed signals. */
export async function loadOlder(): Promise<void> {
  if (older.value.busy || !older.value.more) return;
  const mine = generation;
  older.value = { more: true, busy: true };
  try {
    const page = await fetchPage("closed", closedOffset);
    if (mine !== generation) return;
    take(page);
    closedOffset += page.signals.length;
    older.value = { more: page.has_more && store.size < capacity, busy: false };
    // These were asked for; what waits was not.
    const { open, closed } = order.value;
    const shown = new Set([...closed, ...page.signals.map((s) => s.signal_id)]);
    show({ open, closed: arrange(store, filters.value).closed.filter((id) => shown.has(id)) });
  } catch (error) {
    if (mine !== generation) return;
    older.value = { more: true, busy: false };
    failed.value = explain(error);
  }
}

const isText = (v: unknown) => typeof v === "string";
const isLevel = (v: unknown) => v === null || (typeof v === "number" && Number.isFinite(v));

/** The members of a message that the page relies on. One that lacks any is not used at all. */
const forms: Record<string, Record<string, (v: unknown) => boolean>> = {
  "signal.new": {
    signal_id: isText, agent_id: isText, asset: isText, strategy: isText, direction: isText, created_at: isText,
    confidence: (v) => isLevel(v) && v !== null, entry_price: isLevel, stop_loss: isLevel, take_profit: isLevel,
    metadata: (v) => typeof v === "object" && v !== null,
  },
  "signal.updated": { signal_id: isText, updated_at: isText, confidence: (v) => isLevel(v) && v !== null },
  "signal.closed": { signal_id: isText, exit_price: isLevel, pnl_percent: isLevel, pnl_absolute: isLevel },
  "system.notification": { message: isText, severity: isText },
};

/** What came while the page was hidden: nothing is drawn then. A hidden page leaves the stream after a minute. */
let unseen: Message[] = [];
/** Beyond so many, loading the list again costs less than applying them. */
const maxUnseen = 2000;
/** Whether there were more, so that events of signals are missing in unseen. */
let tooMany = false;

/** Applies a message of the stream. It throws where the message is not what this page knows under its type. */
export function event(m: Message): void {
  const form = forms[m.type];
  if (!form) return; // of another version, or of no concern
  const members = m.data as Record<string, unknown> | null | undefined;
  for (const [name, fits] of Object.entries(form)) if (!fits(members?.[name])) throw new TypeError(`${m.type} without ${name}`);
  if (!document.hidden) return apply(m);
  unseen.push(m);
  if (tooMany || unseen.length > maxUnseen) {
    tooMany = true;
    unseen = unseen.filter((u) => u.type === "system.notification").slice(-maxNotices); // no list has these
  }
}

/** Applies what came while the page was hidden. */
export function showUnseen(): void {
  const list = unseen;
  const reloads = tooMany;
  unseen = [];
  tooMany = false;
  batch(() => list.forEach(apply));
  if (!reloads) return;
  for (const listener of listeners) listener(null);
  void reload();
}

function apply(m: Message): void {
  if (m.type === "system.notification") {
    const data = m.data as { message: string; severity: string };
    const notice = { text: data.message, severity: data.severity, at: m.timestamp ?? "" };
    notices.value = [notice, ...notices.value].slice(0, maxNotices);
    return;
  }
  meanwhile?.push(m);
  const effect = store.apply(m);
  for (const listener of listeners) listener(m);
  if (effect === "none") return;
  if (effect === "updated") return; // the row changes in its place
  const row = store.get((m.data as { signal_id: string }).signal_id);
  if (!row || !passes({ ...filters.value, status: "" }, row.peek())) return;
  tally[effect]++;
  if (why.asked) later[effect].add(row.peek().signal_id);
  waiting.value = { ...waiting.value, [effect]: waiting.value[effect] + 1 };
  flushSoon();
}

const listeners = new Set<(m: Message | null) => void>();

/**
 * Calls f with the events of signals, also of those that the list does not have, until the returned function is called.
 * The event is null where some were dropped, so that any signal may have changed.
 */
export function onEvent(f: (m: Message | null) => void): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}

function announce(): void {
  if (tally.added + tally.closed === 0) return;
  const parts = [];
  if (tally.added) parts.push(`${tally.added} new signal${tally.added > 1 ? "s" : ""}`);
  if (tally.closed) parts.push(`${tally.closed} closed`);
  announcement.value = parts.join(", ");
  tally.added = tally.closed = 0;
}

/** Another account must not see what the one before has loaded. */
function forgetAll(): void {
  batch(() => {
    generation++;
    clearTimeout(repeatTimer);
    for (const id of [...store.ids()]) store.remove(id);
    gone = [];
    unseen = [];
    tooMany = false;
    meanwhile = null;
    why.asked = true;
    why.gap = false;
    askedFor = null;
    forgetLater();
    tally.added = tally.closed = 0;
    dirty = false;
    held.value = false;
    loading.value = true;
    failed.value = announcement.value = "";
    notices.value = [];
    older.value = { more: false, busy: false };
    order.value = { open: [], closed: [] };
    waiting.value = { added: 0, closed: 0 };
  });
}

/** Connects the list with the stream. */
export function run(): void {
  stream.listen(event, () => void reload());
  order.subscribe(() => follow(openSignals()));
  // Where a proxy lets no stream through, the list is there nevertheless.
  session.state.subscribe((state) => state === "in" && setTimeout(() => askedFor === null && void load(), patience));
  setInterval(announce, announceEvery);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    showUnseen();
    if (dirty) flushSoon();
    if (failed.value) void fetchList();
  });
  session.who.subscribe(forgetAll);
  held.subscribe((value) => !value && dirty && flushSoon());
  reading.subscribe((value) => !value && dirty && flushSoon());
}
