import { computed, signal } from "@preact/signals";
import type { SignalState } from "../api/types";
import { type Filters, passes } from "./filters";
import type { Store } from "./store";

// The order of the rows changes only when the reader does not look at a fixed place: rows then change in their place,
// and what waits is counted.

/** The list as it is shown: open signals, the newest first, then closed ones, the newest end first. */
export interface Order {
  open: string[];
  closed: string[];
}

export const order = signal<Order>({ open: [], closed: [] });

/** What has happened since the order was made. */
export const waiting = signal({ added: 0, closed: 0 });
export const waitingCount = computed(() => waiting.value.added + waiting.value.closed);

/** Sorts what passes. Both times are ISO texts in UTC, which sort as they are. */
export function arrange(store: Store, filters: Filters): Order {
  const open: SignalState[] = [];
  const closed: SignalState[] = [];
  for (const row of store.all()) {
    const s = row.peek();
    if (passes(filters, s)) (s.status === "open" ? open : closed).push(s);
  }
  open.sort((a, b) => compare(b.created_at, a.created_at) || compare(b.signal_id, a.signal_id));
  closed.sort((a, b) => compare(b.closed_at ?? "", a.closed_at ?? "") || compare(b.signal_id, a.signal_id));
  return { open: open.map((s) => s.signal_id), closed: closed.map((s) => s.signal_id) };
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** The part of a list that is in sight, with some rows to spare. */
export function inSight(top: number, height: number, rowHeight: number, count: number): [number, number] {
  const spare = 8;
  const from = Math.max(0, Math.floor(top / rowHeight) - spare);
  return [Math.min(from, count), Math.min(count, Math.ceil((top + height) / rowHeight) + spare)];
}
