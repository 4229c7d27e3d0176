import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { explain, reachable } from "./api/client";
import { SignIn } from "./signin";
import { Layout, pages } from "./layout";
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
  agents: () => import("./pages/agents"),
  run: () => import("./pages/run"),
  webhooks: () => import("./pages/webhooks"),
  weather: () => import("./pages/weather"),
  content: () => import("./pages/content"),
  readers: () => import("./pages/readers"),
  public: () => import("./pages/publication"),
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

/** Keeps a page that cannot draw what it got from taking the others with it. */
class Guard extends Component<{ children: ComponentChildren }, { broken: unknown }> {
  override state = { broken: null as unknown };

  override componentDidCatch(error: unknown) {
    console.error(error);
    this.setState({ broken: error });
  }

  override render() {
    if (!this.state.broken) return this.props.children;
    const retry = () => this.setState({ broken: null });
    const what = explain(this.state.broken);
    return <Fault error={`This page cannot show what the service answered (${what}). The service may be of another version; the other pages work.`} retry={retry} />;
  }
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
    <>
      <h1 class="sr">Not found</h1>
      <Empty title="There is no such page">
        <div class="row">
          <a class="button" href={linkTo("live")}>To the live signals</a>
        </div>
      </Empty>
    </>
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
  const state = session.state.value;
  if (state === "unknown") {
    const why = session.ended.value || (reachable.value ? "" : "The service does not answer.");
    return <main class="signin"><div class="card"><Loading lines={3} />{why && <p class="soft" role="status">{why} This page keeps trying.</p>}</div></main>;
  }
  const who = session.who.value;
  // Where a session ends by itself, what is open stays behind the sign-in page for the same account.
  return (
    <>
      {state === "out" && <SignIn />}
      {who && (
        <div key={who} hidden={state === "out"}>
          <Layout><Guard key={place.value.path.join("/")}><Current /></Guard></Layout>
          {keys.helpOpen.value && <Help />}
          <Toasts />
        </div>
      )}
    </>
  );
}
