import { expect, test } from "vitest";
import { filterText, filtersOf } from "./webhooks";

const form = (members: Record<string, string>) => {
  const data = new FormData();
  for (const [name, value] of Object.entries(members)) data.set(name, value);
  return data;
};

test("a filter has what was chosen, and nothing else", () => {
  expect(filtersOf(form({ assets: " ", agents: "", min_confidence: "" }))).toEqual({});
  expect(filtersOf(form({ assets: "BTC, eth ,", agents: "trading", strategies: "", directions: "short", min_confidence: "0.45" }))).toEqual({
    assets: ["BTC", "eth"],
    agents: ["trading"],
    directions: ["short"],
    min_confidence: 0.45,
  });
});

test("a filter is told in words", () => {
  expect(filterText({} as never)).toBe("all");
  expect(filterText(null as never)).toBe("all");
  expect(
    filterText({ assets: ["BTC", "ETH"], agents: [], strategies: ["mean_reversion"], directions: ["long"], min_confidence: 0, min_expected_r_net: 0.1 } as never),
  ).toBe("BTC, ETH · mean reversion · long · chance at least 0 % · expected at least +0.10 R net");
});
