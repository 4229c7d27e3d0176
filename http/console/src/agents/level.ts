// Levels as people write them, which the commands and chart alerts read alike: 65000, 1.5%, 2atr, and 2R for a target.

export type Level = Record<string, number>;

const units: Record<string, string> = { "": "price", "%": "percent", atr: "atr", r: "r" };

/** What an input of a level accepts; a stop has no R. */
export const stopPattern = "\\s*\\d+(\\.\\d+)?\\s*(%|atr|ATR)?\\s*";
export const targetPattern = "\\s*\\d+(\\.\\d+)?\\s*(%|atr|ATR|r|R)?\\s*";

/** Returns the level of a text, or undefined for none. */
export function levelOf(text: string): Level | undefined {
  const found = text.trim().match(/^(\d+(?:\.\d+)?)\s*(%|atr|r)?$/i);
  return found ? { [units[(found[2] ?? "").toLowerCase()]!]: Number(found[1]) } : undefined;
}

/** Returns the text of a level. */
export function textOf(level: Level | undefined): string {
  const [unit, value] = Object.entries(level ?? {})[0] ?? [];
  if (unit === undefined) return "";
  return value + ({ percent: "%", atr: "atr", r: "R" }[unit] ?? "");
}
