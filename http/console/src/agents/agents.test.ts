import { expect, test } from "vitest";
import { messageOf } from "./intakes";
import message from "./alert.json?raw";
import type { Scorecard } from "../api/types";
import { levelOf, stopPattern, targetPattern, textOf } from "./level";
import { scores } from "./score";

test("levels are read as people write them, and written so that they are read", () => {
  const levels: [string, Record<string, number> | undefined][] = [
    ["65000", { price: 65000 }],
    [" 1.5 % ", { percent: 1.5 }],
    ["2atr", { atr: 2 }],
    ["2 ATR", { atr: 2 }],
    ["2R", { r: 2 }],
    ["", undefined],
    ["two", undefined],
    ["-1%", undefined],
    ["1e3", undefined],
  ];
  for (const [text, want] of levels) {
    expect(levelOf(text), text).toEqual(want);
    expect(levelOf(textOf(want)), text).toEqual(want);
    if (text) expect(new RegExp(`^(?:${targetPattern})$`).test(text), text).toBe(want !== undefined);
  }
  expect(new RegExp(`^(?:${stopPattern})$`).test("2R")).toBe(false);
  expect(textOf({})).toBe("");
});

test("the message of an alert is that of the service", () => {
  expect(messageOf("my_strategy") + "\n").toBe(message);
});

const group = (agent: string, results: number[]) => {
  const gains = results.filter((r) => r > 0).reduce((a, b) => a + b, 0);
  const losses = -results.filter((r) => r < 0).reduce((a, b) => a + b, 0);
  const statistics = { count: results.length, wins: results.filter((r) => r > 0).length, total_r: gains - losses, profit_factor: losses ? gains / losses : null };
  return { agent_id: agent, statistics } as unknown as Scorecard["groups"][number];
};

test("the break-even of an agent follows from the gains and losses of its groups", () => {
  const found = scores([group("a", [2, 2, -1]), group("a", [-1, -1]), group("b", [1, -1]), group("c", [1, 2]), group("d", [-1])], (g) => g.agent_id);
  const { breakEven, ...rest } = found.get("a")!;
  expect(rest).toEqual({ count: 5, wins: 2, net: 1 });
  expect(breakEven).toBeCloseTo(1 / 3, 12); // a gain is 2, a loss 1
  expect([...found].map(([name, s]) => [name, s.count, s.breakEven === null])).toEqual([
    ["a", 5, false],
    ["b", 2, true], // as much of both
    ["c", 2, true],
    ["d", 1, true],
  ]);
});
