import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { dark } from "../theme";
import * as format from "../format";

interface CurveProps {
  /** What a screen reader says instead of the picture. */
  label: string;
  times: number[]; // seconds
  values: (number | null)[];
  /** Returns a label of the axis, whose values differ by what has so many decimals. */
  text: (value: number, digits: number) => string;
  height?: number;
  /** A horizontal line to compare with. */
  level?: number;
  stepped?: boolean;
  /** Whether the area between the curve and the level is shaded. */
  filled?: boolean;
  range?: [number, number];
  color?: string;
}

const resolve = (box: HTMLElement, name: string) => {
  box.style.color = `var(--${name})`;
  const value = getComputedStyle(box).color;
  box.style.color = "";
  return value;
};

/** Below this length of time, in seconds, the axis shows seconds. */
const secondsBelow = 600;

/** Leaves out a label that says the same as the one before it. */
const once = (labels: string[]) => labels.map((text, i) => (text === labels[i - 1] ? "" : text));

/** Returns the decimals of a step of an axis, such as 0.25. */
export const digitsOf = (step: number) => {
  let digits = 0;
  for (let n = step; digits < 9 && Math.abs(n - Math.round(n)) > n * 1e-6; n *= 10) digits++;
  return digits;
};

/** A curve over time. */
export function Curve({ label, times, values, text, height = 180, level, stepped, filled, range, color = "accent" }: CurveProps) {
  const box = useRef<HTMLDivElement>(null);
  const isDark = dark.value;
  useEffect(() => {
    const target = box.current!;
    const stroke = resolve(target, color);
    const axis = { stroke: resolve(target, "muted"), grid: { stroke: resolve(target, "line"), width: 1 }, ticks: { show: false }, font: `11px ${getComputedStyle(target).fontFamily}` };
    const span = (times.at(-1) ?? 0) - (times[0] ?? 0);
    const flat = level === undefined ? null : times.map(() => level);
    const plot = new uPlot(
      {
        width: Math.max(200, target.clientWidth),
        height,
        padding: [8, 24, 0, 0],
        cursor: { y: false, drag: { x: false, y: false } },
        legend: { show: false },
        scales: { x: { time: true }, ...(range && { y: { range: () => range } }) },
        axes: [
          { ...axis, size: 26, space: 90, values: (_, list) => once(list.map((t) => format.time(t * 1000).replace(span < secondsBelow ? /^$/ : /:\d\d$/, ""))) },
          { ...axis, size: 62, space: 36, values: (_, list, __, ___, step) => list.map((v) => text(v, digitsOf(step))) },
        ],
        series: [
          {},
          {
            stroke,
            ...(filled && { fill: `color-mix(in srgb, ${stroke} 12%, transparent)`, fillTo: () => level ?? 0 }),
            width: 1.75,
            points: { show: times.length < 2 },
            ...(stepped && { paths: uPlot.paths.stepped!({ align: 1 }) }),
          },
          ...(flat ? [{ stroke: resolve(target, "line-strong"), dash: [4, 4], width: 1, points: { show: false } }] : []),
        ],
      },
      (flat ? [times, values, flat] : [times, values]) as uPlot.AlignedData,
      target,
    );
    const watch = new ResizeObserver(() => plot.setSize({ width: Math.max(200, target.clientWidth), height }));
    watch.observe(target);
    return () => (watch.disconnect(), plot.destroy());
  }, [times, values, isDark, level, height]);
  return <div class="plot" ref={box} role="img" aria-label={label} style={{ minHeight: `${height}px` }} />;
}
