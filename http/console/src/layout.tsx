import { Fragment, type ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { absent, reachable } from "./api/client";
import icon from "./icon.svg";
import { narrow } from "./media";
import { clockError, now } from "./clock";
import * as format from "./format";
import * as data from "./live/data";
import { assets, simulated } from "./live/prices";
import { linkTo, page } from "./router";
import { account, summary, warnings } from "./reference";
import * as session from "./session";
import * as stream from "./stream/client";
import { setTheme, theme, type Theme } from "./theme";
import { helpOpen } from "./keys";
import { R, Select } from "./ui/kit";

/** The pages, by the word in the address; the letter goes there behind "g". */
export const pages = [
  { path: "live", name: "Live", key: "l" },
  { path: "scorecard", name: "Scorecard", key: "s" },
  { path: "weather", name: "Weather", key: "w" },
  { path: "content", name: "Content", key: "c" },
  { path: "agents", name: "Agents", key: "e" },
  { path: "run", name: "Run", key: "r" },
  { path: "webhooks", name: "Webhooks", key: "h" },
  { path: "readers", name: "Readers", key: "d" },
  { path: "public", name: "Public record", key: "p" },
  { path: "account", name: "Account", key: "a" },
] as const;

/** What the stream is doing, in words. */
function StreamState() {
  const { state, retryAt, lostAt } = stream.status.value;
  const delay = stream.behind.value;
  switch (state) {
    case "live":
      return (
        <span class="state live">
          Live
          {delay !== null && <span class="muted">behind by {delay < 1000 ? `${Math.round(delay)} ms` : format.duration(delay)}</span>}
        </span>
      );
    case "waiting": {
      void now.value; // counts down
      const wait = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
      return (
        <span class="state bad">
          Offline <span class="muted">since {format.time(lostAt)}, next try in {wait} s</span>
        </span>
      );
    }
    case "paused":
      return <span class="state wait">Paused <span class="muted">while hidden</span></span>;
    default:
      return <span class="state wait">Connecting</span>;
  }
}

function Interrupted() {
  const i = stream.interruption.value;
  if (!i) return null;
  if (i.kind === "resumed") {
    return (
      <div class="strip notice" role="status">
        Resumed: {format.count(i.replayed)} event{i.replayed === 1 ? "" : "s"} replayed, none missing.
      </div>
    );
  }
  if (i.kind === "reloaded") {
    return (
      <div class="strip notice" role="status">
        Reconnected after {format.duration(i.to - i.from)}. Everything was loaded again.
      </div>
    );
  }
  return (
    <div class="strip bad" role="status">
      Gap {format.time(i.from)} to {format.time(i.to)}: the stream could not replay it, so everything was loaded again.
      <button type="button" class="plain" onClick={() => (stream.interruption.value = null)}>
        Understood
      </button>
    </div>
  );
}

function Warnings() {
  const wrong = Math.abs(clockError());
  return (
    <>
      {!reachable.value && <div class="strip bad" role="status">The service does not answer. What you see may be old; this page keeps trying.</div>}
      {absent.value.size > 0 && (
        <div class="strip notice" role="status">
          This service has no {[...absent.value].join(", ")}: it is of another version. The rest of the page works.
        </div>
      )}
      {stream.unreadable.value > 0 && (
        <div class="strip notice" role="status">
          {format.count(stream.unreadable.value)} message{stream.unreadable.value > 1 ? "s" : ""} of the stream could not be read. A proxy may have
          changed them, or the service is of another version.
          <button type="button" class="plain" onClick={() => (stream.unreadable.value = 0)}>Dismiss</button>
        </div>
      )}
      {warnings.value.map((text) => (
        <div class="strip bad" key={text}>
          {text}
        </div>
      ))}
      {simulated(assets.value) && (
        <div class="strip sim">
          <span>
            <strong>Simulated market</strong>: prices and results are made up
          </span>
        </div>
      )}
      {wrong > 120_000 && (
        <div class="strip notice">
          This computer's clock is wrong by {format.duration(wrong)}. Ages are counted by the service's clock.
        </div>
      )}
      {data.notices.value[0] && (
        <div class={`strip ${data.notices.value[0].severity === "info" ? "notice" : "bad"}`} role="status">
          {data.notices.value[0].text}
          <button type="button" class="plain" onClick={() => (data.notices.value = data.notices.value.slice(1))}>
            Dismiss
          </button>
        </div>
      )}
    </>
  );
}

function Figures() {
  const s = summary.value;
  if (!s) return <dl class="figures" />;
  const { today } = s;
  return (
    <dl class="figures" aria-label="Today">
      <div>
        <dt>Open</dt>
        <dd>{format.count(s.signals.open)}</dd>
      </div>
      <div class="second">
        <dt>Closed today</dt>
        <dd>{format.count(today.closed)}</dd>
      </div>
      <div class="second optional">
        <dt>In profit</dt>
        <dd>
          {format.count(today.hits)} <span class="muted">of {format.count(today.closed)}</span>
        </dd>
      </div>
      <div class="third">
        <dt>Net today</dt>
        <dd><R of={today.r_net} digits={1} /></dd>
      </div>
      <div class="second optional">
        <dt>Before costs</dt>
        <dd class="muted">{format.r(today.r, 1)}</dd>
      </div>
    </dl>
  );
}

/** Keeps the height of the header known to what sticks below it. */
function useHeaderHeight() {
  const top = useRef<HTMLElement>(null);
  useEffect(() => {
    const watch = new ResizeObserver(() => {
      document.documentElement.style.setProperty("--head", `${top.current?.offsetHeight ?? 48}px`);
    });
    watch.observe(top.current!);
    return () => watch.disconnect();
  }, []);
  return top;
}

export function Layout({ children }: { children: ComponentChildren }) {
  const top = useHeaderHeight();
  const current = page.value === "signals" ? "live" : page.value;
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        To the content
      </a>
      <header class="rail" id="rail" {...(narrow.value ? { popover: "auto" } : {})}>
        <a class="brand" href={linkTo("live")}>
          <img src={icon} alt="" width="20" height="20" />
          Agent Signal
        </a>
        <nav aria-label="Pages">
          {pages.map((p) => (
            <Fragment key={p.path}>
              {p.path === "agents" && <span class="gap" />}
              <a href={linkTo(p.path)} aria-current={current === p.path ? "page" : undefined} onClick={closeRail}>
                {p.name}
              </a>
            </Fragment>
          ))}
        </nav>
        <div class="foot">
          <label for="theme" class="sr">Theme</label>
          <Select
            id="theme"
            value={theme.value}
            options={[["", "System theme"], ["dark", "Dark"], ["light", "Light"]]}
            onChange={(value) => setTheme(value as Theme)}
          />
          <span class="break">{account.value?.email}</span>
          <div class="row">
            <button type="button" class="plain" onClick={() => void session.signOut()}>Sign out</button>
            <button type="button" class="plain" aria-label="Help and keys" onClick={() => (helpOpen.value = true)}>Help <kbd>?</kbd></button>
          </div>
        </div>
      </header>
      <div class="side">
        <section class="top" ref={top} aria-label="State">
          <div class="bar">
            <button type="button" class="menu-button" {...{ popovertarget: "rail" }}>Menu</button>
            <StreamState />
            <Figures />
          </div>
          <Warnings />
          <Interrupted />
        </section>
        <main id="main" tabIndex={-1}>{children}</main>
      </div>
      <div class="sr" role="status" aria-live="polite">{data.announcement.value}</div>
    </div>
  );
}

function closeRail(): void {
  const rail = document.getElementById("rail");
  if (rail?.matches(":popover-open")) rail.hidePopover();
}
