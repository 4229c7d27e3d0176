import {
  CandlestickSeries,
  ColorType,
  createChart,
  createSeriesMarkers,
  LineStyle,
  type SeriesMarker,
  type Time,
  type UTCTimestamp,
} from "lightweight-charts";
import type { SignalState } from "../api/types";
import * as format from "../format";
import { priceStep, priceText } from "../live/prices";

/** A bar of prices. */
export interface Bar {
  open_time: string;
  open: number;
  high: number;
  low: number;
  close: number;
}

const seconds = (iso: string) => Math.floor(Date.parse(iso) / 1000) as UTCTimestamp;
const color = (name: string) => {
  // The library draws on a canvas and knows no light-dark(): the browser resolves it.
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
};

/**
 * Draws the prices of a signal with its levels. The returned functions replace the bars, move the last one and remove
 * the chart.
 */
export function drawPrices(box: HTMLElement, s: SignalState, barSeconds: number) {
  // Bars of less than a minute, as of a market that runs faster than the clock, need seconds to differ.
  const clock = (t: Time) => format.time(Number(t) * 1000).replace(barSeconds < 60 ? /^$/ : /:\d\d$/, "");
  const chart = createChart(box, {
    autoSize: true,
    layout: {
      attributionLogo: false, // it is a style element, which the policy forbids; the notice is on the page
      background: { type: ColorType.Solid, color: "transparent" },
      textColor: color("muted"),
      fontFamily: getComputedStyle(document.body).fontFamily,
      fontSize: 11,
    },
    grid: { vertLines: { visible: false }, horzLines: { color: color("line") } },
    rightPriceScale: { borderVisible: false, scaleMargins: { top: 0.08, bottom: 0.08 } },
    timeScale: { borderVisible: false, timeVisible: true, secondsVisible: true, rightOffset: 6, tickMarkFormatter: clock },
    localization: { timeFormatter: (t: Time) => format.time(Number(t) * 1000) },
    crosshair: { vertLine: { labelBackgroundColor: color("line-strong") }, horzLine: { labelBackgroundColor: color("line-strong") } },
    handleScroll: { vertTouchDrag: false },
  });
  const series = chart.addSeries(CandlestickSeries, {
    upColor: color("up"),
    downColor: color("down"),
    wickUpColor: color("up"),
    wickDownColor: color("down"),
    borderVisible: false,
    priceLineVisible: s.status === "open",
    lastValueVisible: s.status === "open",
    priceLineColor: color("muted"),
    // Without a step of its own the axis would have none below 0.01, and so no label between the prices of most currencies.
    priceFormat: { type: "custom", formatter: (p: number) => priceText(p, s), minMove: priceStep(s) },
    // All levels are in sight, wherever the price is.
    autoscaleInfoProvider: (base: () => { priceRange: { minValue: number; maxValue: number } | null } | null) => {
      const info = base();
      const levels = [s.stop_loss, s.take_profit, s.entry_price].filter((p) => p !== null);
      const range = info?.priceRange;
      return {
        priceRange: {
          minValue: Math.min(...levels, range?.minValue ?? Infinity),
          maxValue: Math.max(...levels, range?.maxValue ?? -Infinity),
        },
      };
    },
  });
  const line = (price: number | null, title: string, tone: string, style: LineStyle) =>
    price !== null && series.createPriceLine({ price, title, color: color(tone), lineStyle: style, lineWidth: 1, axisLabelVisible: true });
  line(s.take_profit, "target", "up", LineStyle.Solid);
  line(s.entry_price, "entry", "soft", LineStyle.Dashed);
  line(s.stop_loss, "stop", "down", LineStyle.Solid);
  const markers = createSeriesMarkers(series, []);
  let first = true;
  let last: (Bar & { time: UTCTimestamp }) | undefined;
  return {
    set(bars: Bar[], newest: SignalState) {
      const data = bars.map((b) => ({ ...b, time: seconds(b.open_time) }));
      series.setData(data);
      markers.setMarkers(data.length > 0 ? marks(newest, data.map((d) => d.time)) : []);
      if (first && data.length > 0) chart.timeScale().fitContent();
      first = false;
      last = data.at(-1);
    },
    /** Moves the last bar to the price now, which is newer than the bars. */
    tick(price: number) {
      if (!last) return;
      last = { ...last, close: price, high: Math.max(last.high, price), low: Math.min(last.low, price) };
      series.update(last);
    },
    remove: () => chart.remove(),
  };
}

/** Marks the beginning and the end at the bars in which they lie. */
function marks(s: SignalState, times: number[]): SeriesMarker<Time>[] {
  const barOf = (iso: string) => (times.findLast((t) => t <= seconds(iso)) ?? times[0]) as UTCTimestamp;
  const long = s.direction === "long";
  const list: SeriesMarker<Time>[] = [
    {
      time: barOf(s.created_at),
      position: long ? "belowBar" : "aboveBar",
      shape: long ? "arrowUp" : "arrowDown",
      color: color("accent"),
    },
  ];
  if (s.closed_at) {
    list.push({
      time: barOf(s.closed_at),
      position: long ? "aboveBar" : "belowBar",
      shape: "circle",
      color: color((s.r ?? 0) >= 0 ? "up" : "down"),
    });
  }
  return list;
}
