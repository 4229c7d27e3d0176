import { computed, signal } from "@preact/signals";
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

const shown = computed(() => new Set([...order.value.open, ...order.value.closed]));

/** Reports whether a row is in the list as it is shown. */
export const isShown = (id: string) => shown.value.has(id);

/** What has happened since the order was made. */
export const waiting = signal({ added: 0, closed: 0 });
export const waitingCount = computed(() => waiting.value.added + waiting.value.closed);

/** Returns the list of what passes. */
export function arrange(store: Store, filters: Filters): Order {
  const list = (status: "open" | "closed") =>
    store
      .newestFirst(status)
      .filter((row) => passes(filters, row.peek()))
      .map((row) => row.peek().signal_id);
  return { open: list("open"), closed: list("closed") };
}

/** The part of a list that is in sight, with some rows to spare. The list may lie wholly above or below the window. */
export function inSight(top: number, height: number, rowHeight: number, count: number): [number, number] {
  const spare = 8;
  const inside = (row: number) => Math.min(count, Math.max(0, row));
  return [inside(Math.floor(top / rowHeight) - spare), inside(Math.ceil((top + height) / rowHeight) + spare)];
}

/**
 * Returns which of the drawn rows a key goes to, by their tops in ascending order: from the one with the focus by a step,
 * and without focus (here is -1) to the first one below the head of the page. It is -1 where there are no rows.
 */
export function nextRow(tops: number[], here: number, by: number, head: number): number {
  const first = tops.findIndex((top) => top >= head);
  const next = here >= 0 ? here + by : first < 0 ? Infinity : first;
  return Math.min(tops.length - 1, Math.max(0, next));
}
