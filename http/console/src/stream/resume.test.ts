import { describe, expect, test } from "vitest";
import { disconnected, receive, reconnectDelay, start, subscribed } from "./resume";

describe("position", () => {
  test("a connection that breaks off in its replay resumes behind what had come", () => {
    const p = start();
    expect(subscribed(p, null)).toEqual({ kind: "first" });
    receive(p, { type: "signal.new", id: "10-0" });
    disconnected(p);
    expect(subscribed(p, { replayed: 3, complete: true })).toEqual({ kind: "resumed", replayed: 3 });
    receive(p, { type: "signal.new", id: "11-0" });
    receive(p, { type: "heartbeat" });
    disconnected(p);
    expect(p.last).toBe("11-0");
  });

  test("a gap forgets the position", () => {
    const p = start();
    subscribed(p, null);
    receive(p, { type: "signal.new", id: "1-0" });
    disconnected(p);
    expect(subscribed(p, { replayed: 0, complete: false })).toEqual({ kind: "gap" });
    expect(p.last).toBeNull();
  });
});

describe("reconnecting", () => {
  test("a deleted account is not tried again", () => expect(reconnectDelay(4403, 0, 0.5)).toBe(-1));
  test("a process that stops is left in a spread", () => {
    expect(reconnectDelay(1001, 0, 0)).toBe(0);
    expect(reconnectDelay(1001, 0, 1)).toBe(3000);
  });
  test("the wait grows to a limit", () => {
    const waits = [0, 1, 2, 3, 20].map((n) => reconnectDelay(1006, n, 1));
    expect(waits).toEqual([500, 1000, 2000, 4000, 30_000]);
  });
  test("too many messages wait longer", () => expect(reconnectDelay(4429, 0, 0)).toBe(5000));
});
