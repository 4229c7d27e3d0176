import { expect, test } from "vitest";
import { ApiError } from "../api/client";
import { advice, csvOf, namesOf, seesNothing, viewText, withPart } from "./readers";

test("names are separated by commas or lines, once each", () => {
  expect(namesOf(" BTC, eth\nSOL,,BTC ")).toEqual(["BTC", "eth", "SOL"]);
  expect(namesOf(" , ")).toEqual([]);
});

test("an absent part of a view is everything, and an empty one nothing", () => {
  const some = withPart(withPart({}, "assets", ["BTC"]), "agents", []);
  expect(some).toEqual({ assets: ["BTC"], agents: [] });
  expect(seesNothing(some)).toBe(true);
  const all = withPart(some, "agents", null);
  expect(all).toEqual({ assets: ["BTC"] });
  expect(Object.keys(all)).toEqual(["assets"]);
  expect(seesNothing(all)).toBe(false);
  expect(seesNothing({})).toBe(false);
});

test("a view is told in words", () => {
  expect(viewText({})).toBe("everything");
  expect(viewText({ assets: ["BTC", "ETH"], strategies: ["mean_reversion"] })).toBe("Assets: BTC, ETH · Strategies: mean reversion");
  expect(viewText({ agents: [] })).toBe("Agents: none");
});

test("an error says what to do", () => {
  const error = (status: number, code: string) => new ApiError({ status, code, title: "", detail: "x" });
  expect(advice(error(409, "limit_reached"))).toContain("limits.readers");
  expect(advice(error(409, "name_taken"))).toContain("another name");
  expect(advice(error(0, "unreachable"))).toContain("revoke them");
  expect(advice(error(400, "invalid_request"))).toBe("");
  expect(advice(new Error("x"))).toBe("");
});

test("CSV keeps names with commas and quotes", () => {
  expect(csvOf([{ name: 'a "b", c', api_key: "ask_1" }, { name: "d-2", api_key: "ask_2" }])).toBe('name,api_key\r\n"a ""b"", c",ask_1\r\nd-2,ask_2\r\n');
});
