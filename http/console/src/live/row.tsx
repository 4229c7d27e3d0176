import { computed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { now } from "../clock";
import * as format from "../format";
import { linkTo } from "../router";
import { Direction, tone } from "../ui/kit";
import { priceOf, priceText } from "./prices";
import { Ruler } from "./ruler";
import { costOf, isProbability, netOf, resultAt, type Row } from "./store";

const reasons: Record<string, string> = {
  take_profit: "target",
  stop_loss: "stop",
  expired: "expired",
  agent_exit: "by its agent",
  cancelled: "cancelled",
};

/** How a signal ended, in a word. */
export const reasonOf = (reason: string | null) => (reason ? (reasons[reason] ?? format.words(reason)) : format.none);

const freshFor = 8000;

/**
 * One signal. Its cells change with its own data, with its price and with time; the list is not drawn again. Where the
 * list moves, the elements of one signal become those of another.
 */
export function Line({ row, top, index }: { row: Row; top: number; index: number }) {
  const s = row.value;
  const price = useMemo(() => computed(() => priceOf(row.value)), [row]).value;
  const closed = s.status !== "open"; // as the list sorts them
  const result = closed ? s.r : resultAt(s, price);
  const net = closed ? netOf(s) : result === null ? null : result - (costOf(s, price) ?? NaN);
  const fresh = !closed && now.value - Date.parse(s.created_at) < freshFor;
  const chance = s.confidence;
  return (
    <div
      role="row"
      aria-rowindex={index}
      class={`line grid ${closed ? "closed" : ""} ${fresh ? "fresh" : ""}`}
      style={{ transform: `translateY(${top}px)` }}
    >
      <div role="cell" class="c-asset">
        <a class="asset" href={linkTo(`signals/${s.signal_id}`)} data-row={s.signal_id} title={s.asset}>
          {s.asset}
        </a>
        <span class="under">{format.words(s.strategy)}</span>
      </div>
      <div role="cell" class="c-dir">
        {isProbability(s) ? <Direction of={s.direction} /> : <span class="muted">text</span>}
      </div>
      <div role="cell" class="c-ruler">
        <Ruler s={s} price={price} />
      </div>
      <div role="cell" class="num c-result">
        <span class={`main ${tone(result)}`}>{format.r(result)}</span>
        <span class="under">{result === null ? "" : net === null || Number.isNaN(net) ? (closed ? reasonOf(s.close_reason) : "before costs") : `${format.r(net)} net`}</span>
      </div>
      <div role="cell" class="num c-chance">
        <span class="main">{format.percent(chance)}</span>
        <span class="under">{chanceNote(s)}</span>
      </div>
      <div role="cell" class="num c-price">
        <span class="main">{priceText(closed ? s.exit_price : price, s)}</span>
        <span class="under">{priceText(s.entry_price, s)}</span>
      </div>
      <div role="cell" class="num c-levels wide-only">
        <span class="main">{priceText(s.take_profit, s)}</span>
        <span class="under">{priceText(s.stop_loss, s)}</span>
      </div>
      <div role="cell" class="num c-levels c-left wide-only">
        <span class="main">{closed ? reasonOf(s.close_reason) : left(s.expires_at)}</span>
        <span class="under">{closed ? format.change(s.pnl_percent) : s.agent_id}</span>
      </div>
      <div role="cell" class="num c-time">
        <span class="main">{format.age(now.value - Date.parse(closed ? (s.closed_at ?? "") : s.created_at))}</span>
        <span class="under" title={format.utc(s.created_at)}>
          {format.time(closed ? s.closed_at : s.created_at, now.value)}
        </span>
      </div>
    </div>
  );
}

function left(expires: string): string {
  const ms = Date.parse(expires) - now.value;
  return Number.isFinite(ms) ? format.age(ms) : format.none;
}

/** What a chance has to be compared with. */
function chanceNote(s: Row["value"]): string {
  if (!isProbability(s)) return "quality";
  const needed = s.metadata?.break_even_net;
  return needed === undefined ? "chance" : `needs ${format.percent(needed)}`;
}
