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

test("the groups of an agent are added, with the break-even at which each of them gains nothing", () => {
  const group = (agent_id: string, count: number, wins: number, total_r: number, break_even_net: number) =>
    ({ agent_id, statistics: { count, wins, total_r, break_even_net } }) as unknown as Scorecard["groups"][number];
  const found = scores([group("a", 30, 12, 3, 0.5), group("b", 1, 0, -1, 0.4), group("a", 10, 6, -4.5, 0.3)]);
  expect(Object.fromEntries(found)).toEqual({
    a: { count: 40, wins: 18, net: -1.5, breakEven: 0.45 },
    b: { count: 1, wins: 0, net: -1, breakEven: 0.4 },
  });
});
