import { computed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError, explain, get, reachable } from "../api/client";
import type { SignalState } from "../api/types";
import { keysOf } from "../keys";
import { narrow } from "../media";
import { place, setQuery, linkTo } from "../router";
import { agents, strategiesOf, summary } from "../reference";
import * as stream from "../stream/client";
import { Empty, Fault, Loading, Select, useLoad } from "../ui/kit";
import * as data from "./data";
import { anyFilter, type Filters, noFilters, readFilters } from "./filters";
import { inSight, nextRow, order, waiting, waitingCount } from "./order";
import { assetNames } from "./prices";
import { Line } from "./row";
import { Axis } from "./ruler";
import { count } from "../format";

const wideRow = 44;
const narrowRow = 84;
const reloadAfter = 300;

/** Whether prices stand still because the stream is lost; only that draws the list again. */
const stale = computed(() => stream.status.value.state === "waiting");

function setFilter(name: keyof Filters, value: string): void {
  setQuery({ ...data.filters.peek(), [name]: value } as unknown as Record<string, string>);
}

/** The filters. On one column all but the asset are folded away, so that the list begins higher. */
function FilterBar() {
  const f = data.filters.value;
  const [all, setAll] = useState(false);
  const folded = narrow.value && !all;
  const active = Object.entries(f).filter(([name, value]) => name !== "asset" && value !== "").length;
  return (
    <form class={`filters ${folded ? "folded" : ""}`} role="search" aria-label="Signals" onSubmit={(event) => event.preventDefault()}>
      <div class="field">
        <label for="f-asset">Asset</label>
        <input
          id="f-asset"
          type="search"
          list="f-assets"
          placeholder="any"
          autoComplete="off"
          spellcheck={false}
          maxLength={64}
          value={f.asset}
          onInput={(event) => setFilter("asset", event.currentTarget.value)}
        />
        <datalist id="f-assets">
          {assetNames.value.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </div>
      {narrow.value && (
        <button type="button" class="more" aria-expanded={all} onClick={() => setAll(!all)}>
          Filters{active > 0 && ` (${active})`}
        </button>
      )}
      <div class="field">
        <label for="f-agent">Agent</label>
        <Select
          id="f-agent"
          value={f.agent}
          options={[["", "any"], ...agents.value.map((a) => [a.id, a.name] as const)]}
          onChange={(value) => setFilter("agent", value)}
        />
      </div>
      <div class="field">
        <label for="f-strategy">Strategy</label>
        <Select
          id="f-strategy"
          value={f.strategy}
          options={[["", "any"], ...strategiesOf(f.agent)]}
          onChange={(value) => setFilter("strategy", value)}
        />
      </div>
      <div class="field">
        <label for="f-direction">Direction</label>
        <Select
          id="f-direction"
          value={f.direction}
          options={[["", "any"], ["long", "▲ long"], ["short", "▼ short"]]}
          onChange={(value) => setFilter("direction", value)}
        />
      </div>
      <div class="field">
        <label for="f-confidence">Chance at least</label>
        <Select
          id="f-confidence"
          value={f.confidence}
          options={[["", "any"], ...[30, 40, 45, 50, 55, 60, 70, 80].map((n) => [`${n}`, `${n} %`] as const)]}
          onChange={(value) => setFilter("confidence", value)}
        />
      </div>
      <div class="field">
        <label for="f-status">Status</label>
        <Select
          id="f-status"
          value={f.status}
          options={[["", "any"], "open", "closed"]}
          onChange={(value) => setFilter("status", value)}
        />
      </div>
    </form>
  );
}

/** The rows in sight of a list of any length. */
function Rows({ ids, from, height }: { ids: string[]; from: number; height: number }) {
  const box = useRef<HTMLDivElement>(null);
  const range = useSignal<[number, number]>([0, 40]);
  useLayoutEffect(() => {
    let frame = 0;
    const measure = () => {
      frame = 0;
      const rect = box.current?.getBoundingClientRect();
      if (!rect) return;
      const next = inSight(-rect.top, window.innerHeight, height, ids.length);
      if (next[0] !== range.peek()[0] || next[1] !== range.peek()[1]) range.value = next;
    };
    const soon = () => (frame ||= requestAnimationFrame(measure));
    soon(); // the place on the screen is asked for in a frame, which knows it anyway
    window.addEventListener("scroll", soon, { passive: true });
    window.addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      window.removeEventListener("scroll", soon);
      window.removeEventListener("resize", soon);
    };
  }, [ids.length, height, from]);
  const [first, last] = range.value;
  return (
    <div class="window" role="rowgroup" ref={box} style={{ height: `${ids.length * height}px`, "--row": `${height}px` }}>
      {ids.slice(first, last).map((id, i) => {
        const row = data.store.get(id);
        // A place of the list keeps its elements: when the list moves, most rows are others, and to change elements
        // takes a fraction of the time that making them takes.
        return row && <Line key={first + i} row={row} index={from + first + i} top={(first + i) * height} />;
      })}
    </div>
  );
}

/** Notices whether the reader is in the list: it must not move then. */
function useReading() {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let moved = 0;
    let pressed = false;
    const look = () => {
      const scrolled = window.scrollY > 24;
      const inside = list.current?.contains(document.activeElement) ?? false;
      data.reading.value = scrolled || inside || pressed || Date.now() - moved < 1500;
    };
    const move = () => ((moved = Date.now()), look());
    // Between a finger's touch and the click, a row must not become that of another signal.
    const press = () => ((pressed = true), move());
    const release = () => ((pressed = false), move());
    const timer = setInterval(look, 500);
    window.addEventListener("scroll", look, { passive: true });
    document.addEventListener("focusin", look);
    list.current?.addEventListener("pointermove", move, { passive: true });
    list.current?.addEventListener("pointerdown", press, { passive: true });
    window.addEventListener("pointerup", release);
    window.addEventListener("pointercancel", release);
    return () => {
      clearInterval(timer);
      window.removeEventListener("pointerup", release);
      window.removeEventListener("pointercancel", release);
      window.removeEventListener("scroll", look);
      document.removeEventListener("focusin", look);
      data.reading.value = false;
    };
  }, []);
  return list;
}

function pillText({ added, closed }: { added: number; closed: number }): string {
  return [added && `${count(added)} new`, closed && `${count(closed)} closed`].filter(Boolean).join(" · ");
}

function toTop(): void {
  (document.activeElement as HTMLElement | null)?.blur();
  window.scrollTo({ top: 0 });
  data.showWaiting();
}

/** Counts what waits. It is a component of its own, as it may change with every message. */
function Pill() {
  const still = data.held.value || data.reading.value;
  return (
    <div class="pill">
      {still && waitingCount.value > 0 && (
        <button type="button" onClick={toTop}>
          ↑ {pillText(waiting.value)}
        </button>
      )}
    </div>
  );
}

/** Moves the focus to another row; the list scrolls with it. */
function step(by: number): void {
  const links = [...document.querySelectorAll<HTMLElement>("[data-row]")]
    .map((link) => ({ link, top: link.getBoundingClientRect().top }))
    .sort((a, b) => a.top - b.top);
  const here = links.findIndex(({ link }) => link === document.activeElement);
  const head = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop);
  const next = links[nextRow(links.map(({ top }) => top), here, by, head)]?.link;
  next?.focus({ preventScroll: true });
  next?.closest("[role=row]")?.scrollIntoView({ block: "nearest" }); // all of the row, of which the link is the first line
}

export function Live() {
  const list = useReading();
  const height = narrow.value ? narrowRow : wideRow;
  const read = JSON.stringify(readFilters(place.value.query));
  useEffect(() => {
    if (JSON.stringify(data.filters.peek()) !== read) {
      data.filters.value = JSON.parse(read) as Filters;
      data.showWaiting(); // what is known is shown at once, what is missing is asked for
    }
    const timer = setTimeout(data.loadChanged, reloadAfter);
    return () => clearTimeout(timer);
  }, [read]);
  useEffect(() => {
    return keysOf({
      j: () => step(1),
      k: () => step(-1),
      "/": () => document.getElementById("f-asset")?.focus(),
      " ": () => (data.held.value = !data.held.value),
      u: toTop,
    });
  }, []);
  const { open, closed } = order.value;
  const nothing = open.length + closed.length === 0;
  return (
    <>
      <h1 class="sr">Live signals</h1>
      <div class="head">
        <FilterBar />
        <div class="row">
          {anyFilter(data.filters.value) && (
            <a class="button" href={linkTo("live", { ...noFilters })}>
              Clear
            </a>
          )}
          <button type="button" aria-pressed={data.held.value} onClick={() => (data.held.value = !data.held.value)}>
            {data.held.value ? "Held" : "Hold"} {!narrow.value && <kbd>space</kbd>}
          </button>
        </div>
      </div>
      {data.failed.value && reachable.value && <Fault error={data.failed.value} retry={() => void data.load()} />}
      <div class={`panel ${stale.value ? "stale" : ""}`}>
        <Pill />
        <div ref={list} role="table" aria-label="Signals" aria-rowcount={open.length + closed.length + 1}>
          <div class="live-head" role="rowgroup">
            <div class="grid" role="row" aria-rowindex={1}>
              <div role="columnheader">Asset / strategy</div>
              <div role="columnheader">Side</div>
              <div role="columnheader">
                <span class="sr">Stop, entry, target and price in R</span>
                <Axis />
              </div>
              <div role="columnheader" class="num" title="The result at the price now or at the end, and after costs">Result / net</div>
              <div role="columnheader" class="num" title="The chance to close in profit, and what it must be to pay the costs">Chance / needs</div>
              <div role="columnheader" class="num">Price / entry</div>
              <div role="columnheader" class="num wide-only">Target / stop</div>
              <div role="columnheader" class="num wide-only">Left / agent</div>
              <div role="columnheader" class="num">Age / since</div>
            </div>
          </div>
          {data.loading.value && nothing ? (
            <Loading lines={9} />
          ) : nothing && data.failed.value ? null : nothing ? (
            <Nothing />
          ) : (
            <>
              {open.length > 0 && <Group name="Open" n={open.length} all={summary.value?.signals.open} note="the newest first" />}
              <Rows ids={open} from={2} height={height} />
              {closed.length > 0 && <Group name="Closed" n={closed.length} all={summary.value?.signals.closed} note={data.older.value.more ? "the newest of more" : "by the time they ended"} />}
              <Rows ids={closed} from={2 + open.length} height={height} />
            </>
          )}
        </div>
        {data.older.value.more && !nothing && (
          <div class="foot-line">
            <button type="button" disabled={data.older.value.busy} onClick={() => void data.loadOlder()}>
              {data.older.value.busy ? "Loading…" : "Load older ones"}
            </button>
          </div>
        )}
      </div>
    </>
  );
}

/** The head of a list of n rows. Without filters it has the account's count, which the header shows as well. */
function Group({ name, n, all, note }: { name: string; n: number; all: number | undefined; note: string }) {
  return (
    <div class="group" role="rowgroup">
      <div role="row" class="row">
        <div role="rowheader">
          <span class="strong">{name}</span> <span class="muted">{count(anyFilter(data.filters.value) ? n : (all ?? n))} · {note}</span>
        </div>
      </div>
    </div>
  );
}

/** Returns the asset that the service takes a name for: of another spelling, such as bitcoin, or a near one. */
async function meantBy(name: string, abort: AbortSignal): Promise<string> {
  if (!name) return "";
  try {
    const { signals } = await get<{ signals: SignalState[] }>("/v1/signals", { asset: name, limit: 1 }, abort);
    return signals[0]?.asset ?? "";
  } catch (error) {
    const words = error instanceof ApiError ? explain(error).split(/[\s,?]+/) : [];
    return words.slice(words.indexOf("mean") + 1).find((word) => assetNames.peek().includes(word)) ?? "";
  }
}

function Nothing() {
  const { asset } = data.filters.value;
  const meant = useLoad(asset, (abort) => meantBy(asset, abort)).data ?? "";
  if (anyFilter(data.filters.value)) {
    return (
      <Empty title="No signal fits these filters">
        <p>New ones that fit appear here as they come.</p>
        <div class="row">
          {meant && meant.toLowerCase() !== asset.toLowerCase() && (
            <button type="button" class="primary" onClick={() => setFilter("asset", meant)}>Did you mean {meant}?</button>
          )}
          <a class="button" href={linkTo("live")}>Clear the filters</a>
        </div>
      </Empty>
    );
  }
  return (
    <Empty title="No signals yet">
      <p>Run an agent once, or let a schedule run it. Its signal appears here, and moves until it reaches its target, its stop or its end.</p>
      <div class="row">
        <a class="button" href={linkTo("run")}>Run an agent</a>
        <a class="button" href={linkTo("run", { tab: "schedules" })}>Make a schedule</a>
      </div>
    </Empty>
  );
}
