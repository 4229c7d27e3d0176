import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Door } from "./door";
import { Frame, pages } from "./frame";
import { Help } from "./help";
import * as keys from "./keys";
import { Live } from "./live/page";
import { goTo, linkTo, page, place } from "./router";
import * as session from "./session";
import { Empty, Fault, Loading, Toasts } from "./ui/kit";

// The first page holds what everybody sees; the others come when they are opened.
const others: Record<string, () => Promise<{ default: ComponentType }>> = {
  signals: () => import("./pages/signal"),
  scorecard: () => import("./pages/scorecard"),
  run: () => import("./pages/run"),
  webhooks: () => import("./pages/webhooks"),
  weather: () => import("./pages/weather"),
  content: () => import("./pages/content"),
  account: () => import("./pages/account"),
};

const titles: Record<string, string> = { signals: "Signal", ...Object.fromEntries(pages.map((p) => [p.path, p.name])) };

function Other({ name }: { name: string }) {
  const [state, set] = useState<{ name: string; page: ComponentType | null; error: unknown }>({ name: "", page: null, error: null });
  const load = async () => {
    try {
      const module = await others[name]!();
      set({ name, page: module.default, error: null });
    } catch (error) {
      set({ name, page: null, error });
    }
  };
  useEffect(() => void load(), [name]);
  if (state.name !== name) return <Loading />;
  if (state.error) {
    // After an update of the service the files have other names.
    return <Fault error="This part of the console could not be loaded. The service may have been updated." retry={() => location.reload()} />;
  }
  const Page = state.page!;
  return <Page />;
}

function Current() {
  const name = page.value;
  useEffect(() => {
    document.title = `${titles[name] ?? "Not found"} · Agent Signal`;
    window.scrollTo({ top: 0 });
  }, [name, place.value.path.join("/")]);
  if (name === "live") return <Live />;
  if (others[name]) return <Other name={name} />;
  return (
    <Empty title="There is no such page">
      <div class="row">
        <a class="button" href={linkTo("live")}>To the live signals</a>
      </div>
    </Empty>
  );
}

export function App() {
  useEffect(
    () =>
      keys.keysOf({
        ...Object.fromEntries(pages.map((p) => [`g ${p.key}`, () => goTo(p.path)])),
        "?": () => (keys.helpOpen.value = true),
      }),
    [],
  );
  switch (session.state.value) {
    case "unknown":
      return <main class="door"><Loading lines={3} /></main>;
    case "out":
      return <Door />;
  }
  return (
    <>
      <Frame><Current /></Frame>
      {keys.helpOpen.value && <Help />}
      <Toasts />
    </>
  );
}
