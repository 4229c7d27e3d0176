// Numbers as traders write them. A value that is missing is an en dash.

export const none = "–";
const minus = "−";

/** Returns a number with the sign before it, also for a gain. */
function signed(value: number, text: string): string {
  if (Number(text.replace(/,/g, "")) === 0) return text;
  return value < 0 ? minus + text : "+" + text;
}

const grouped = new Map<number, Intl.NumberFormat>();

function decimals(value: number, digits: number): string {
  let format = grouped.get(digits);
  if (!format) {
    format = new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    grouped.set(digits, format);
  }
  return format.format(value);
}

const maxDigits = 10;

function usualDigits(size: number, assetClass: string | null): number {
  if (assetClass === "fx") return size >= 20 ? 3 : 5; // 20 and more are yen
  if (assetClass === "commodity" && size < 10) return 3;
  if (size >= 100 || size === 0 || (assetClass !== null && assetClass !== "crypto" && size >= 1)) return 2;
  if (size >= 1) return 4;
  let digits = 3;
  for (; size < 1 && digits < maxDigits; digits++) size *= 10; // a logarithm could differ from the commands'
  return digits;
}

/**
 * Returns the decimals with which a trader writes a price, by the class of its asset, which is null if it is not known.
 * The first of levels, the prices that stand beside it, decides on the decimals of all, and there are more if two would
 * look the same.
 */
export function priceDigits(value: number, assetClass: string | null, levels: readonly (number | null)[]): number {
  const known = levels.filter((level) => level !== null);
  let digits = usualDigits(Math.abs(levels[0] ?? value), assetClass);
  while (digits < maxDigits && new Set(known.map((x) => decimals(x, digits))).size < new Set(known).size) digits++;
  return digits;
}

/**
 * Returns a price as a trader writes it, with its priceDigits. The commands do the same: their test writes format.json,
 * which has examples.
 */
export function price(
  value: number | null | undefined,
  assetClass: string | null = null,
  levels: readonly (number | null)[] = [],
): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return none;
  return decimals(value, priceDigits(value, assetClass, levels));
}

export function r(value: number | null | undefined, digits = 2): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return none;
  return signed(value, decimals(Math.abs(value), digits)) + " R";
}

export function percent(share: number | null | undefined, digits = 0): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return none;
  return decimals(share * 100, digits) + " %";
}

/** Returns a change in percent; value is in percent, too. */
export function change(value: number | null | undefined, digits = 2): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return none;
  return signed(value, decimals(Math.abs(value), digits)) + " %";
}

export function count(value: number): string {
  return decimals(value, 0);
}

/** Returns a number with at most three digits behind the point, for values of indicators. */
export function plain(value: number): string {
  if (!Number.isFinite(value)) return none;
  return new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 }).format(value);
}

/** Returns a length of time in its two largest units. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return none;
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} m ${String(s % 60).padStart(2, "0")} s`;
  const h = Math.floor(m / 60);
  if (h < 48) return `${h} h ${String(m % 60).padStart(2, "0")} m`;
  return `${Math.floor(h / 24)} d ${h % 24} h`;
}

/** Returns a length of time in one unit, for columns. */
export function age(ms: number): string {
  if (!Number.isFinite(ms)) return none;
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short" });

/** Returns the time of day in the user's zone, with the day if it is not that of now. */
export function time(iso: string | number | null | undefined, nowMs = Date.now()): string {
  const at = new Date(iso ?? NaN);
  if (Number.isNaN(at.getTime())) return none;
  const clock = clockFormat.format(at);
  const day = dayFormat.format(at);
  return day === dayFormat.format(nowMs) ? clock : `${day} ${clock}`;
}

/** Returns the time in UTC, for a title. */
export function utc(iso: string | number | null | undefined): string {
  const at = new Date(iso ?? NaN);
  return Number.isNaN(at.getTime()) ? none : at.toISOString().replace("T", " ").replace("Z", " UTC");
}

const strategyNames: Record<string, string> = { mean_reversion: "mean reversion" };

/** Returns a name of the API with spaces. */
export const words = (name: string) => strategyNames[name] ?? name.replaceAll("_", " ");

/** The 95 % interval of Wilson for hits of n. */
export function wilson(hits: number, n: number): [number, number] {
  if (n === 0) return [0, 1];
  const z = 1.959964;
  const p = hits / n;
  const middle = (p + (z * z) / (2 * n)) / (1 + (z * z) / n);
  const half = (z / (1 + (z * z) / n)) * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}
