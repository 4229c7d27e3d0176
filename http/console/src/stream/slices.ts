// Messages that wait in the browser come as one task, however many they are: after a stall that would be a long one,
// in which the page answers nobody. Slices handles what fits into a few milliseconds, and the rest in tasks of its own.

/** Hands items on in their order, as many in one task as fit into the budget, and at least one. */
export class Slices<T> {
  private waiting: T[] = [];
  private next = 0; // of waiting
  private spent = 0;
  private due = false;

  /** budget is in milliseconds; post runs a function in a task of its own, also while the page is hidden. */
  constructor(
    private readonly handle: (item: T) => void,
    private readonly budget: number,
    private readonly post: (f: () => void) => void,
    private readonly now: () => number = () => performance.now(),
  ) {}

  push(item: T): void {
    if (!this.due) this.spent = 0; // the task is another one
    this.renew();
    if (this.next < this.waiting.length || this.spent >= this.budget) this.waiting.push(item);
    else this.run(item);
  }

  /** Handles all that waits, whatever it takes. */
  flush(): void {
    while (this.next < this.waiting.length) this.handle(this.waiting[this.next++]!);
    this.clear();
  }

  /** Forgets what waits. */
  clear(): void {
    this.waiting = [];
    this.next = 0;
  }

  private run(item: T): void {
    const begun = this.now();
    this.handle(item);
    this.spent += this.now() - begun;
  }

  /** Starts the budget again in the next task, which handles what waits by then. */
  private renew(): void {
    if (this.due) return;
    this.due = true;
    this.post(() => {
      this.due = false;
      this.spent = 0;
      if (this.next >= this.waiting.length) return;
      do this.run(this.waiting[this.next++]!);
      while (this.next < this.waiting.length && this.spent < this.budget);
      if (this.next < this.waiting.length) this.renew();
      else this.clear();
    });
  }
}

/** Runs functions in tasks of their own. Timers would wait for a second while the page is hidden. */
export function tasks(): (f: () => void) => void {
  const { port1, port2 } = new MessageChannel();
  const list: (() => void)[] = [];
  port1.onmessage = () => list.shift()?.();
  return (f) => {
    list.push(f);
    port2.postMessage(null);
  };
}
