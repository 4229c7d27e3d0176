import { expect, test } from "vitest";
import { Slices } from "./slices";

/** A page whose items take a millisecond each, with a budget of three. */
function make(handled: number[]) {
  let time = 0;
  const due: (() => void)[] = [];
  const slices = new Slices<number>(
    (item) => {
      handled.push(item);
      time++;
    },
    3,
    (f) => due.push(f),
    () => time,
  );
  return { slices, next: () => due.shift()?.(), left: () => due.length };
}

test("what fits into the budget is handled at once, the rest in later tasks, in its order", () => {
  const handled: number[] = [];
  const { slices, next, left } = make(handled);
  for (let n = 1; n <= 8; n++) slices.push(n);
  expect(handled).toEqual([1, 2, 3]);
  next();
  expect(handled).toEqual([1, 2, 3, 4, 5, 6]);
  slices.push(9);
  expect(handled).toHaveLength(6);
  next();
  expect(handled).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  next();
  expect(left()).toBe(0);
  slices.push(10);
  expect(handled.at(-1)).toBe(10);
});

test("what waits can be handled at once or forgotten", () => {
  const handled: number[] = [];
  const { slices, next } = make(handled);
  for (let n = 1; n <= 5; n++) slices.push(n);
  slices.flush();
  expect(handled).toEqual([1, 2, 3, 4, 5]);
  slices.push(6);
  slices.clear();
  next();
  expect(handled).toEqual([1, 2, 3, 4, 5]);
});

test("one that is flushed while it is handled is handled once", () => {
  const handled: number[] = [];
  const due: (() => void)[] = [];
  const slices: Slices<number> = new Slices<number>(
    (item) => {
      handled.push(item);
      if (item === 2) slices.flush();
    },
    0,
    (f) => due.push(f),
    () => 0,
  );
  slices.push(1);
  slices.push(2);
  slices.push(3);
  for (let n = 0; n < 9; n++) due.shift()?.();
  expect(handled).toEqual([1, 2, 3]);
});
