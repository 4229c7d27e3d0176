import { useState } from "preact/hooks";
import { explain } from "./api/client";
import icon from "./icon.svg";
import { warnings } from "./reference";
import * as session from "./session";

/** The page on which one signs in. */
export function SignIn() {
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState("");
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setWrong("");
    try {
      await session.signIn(String(form.get("email")), String(form.get("password")));
    } catch (error) {
      setWrong(explain(error));
      setBusy(false);
    }
  };
  return (
    <main class="signin">
      <form class="card" onSubmit={submit}>
        <span class="brand">
          <img src={icon} alt="" width="28" height="28" />
          Agent Signal
        </span>
        <h1>Sign in</h1>
        {warnings.value.map((text) => <p class="down small" key={text}>{text}</p>)}
        {session.ended.value && <p class="soft" role="status">{session.ended.value}</p>}
        <div class="field">
          <label for="email">Email</label>
          <input id="email" name="email" type="email" autoComplete="username" required autofocus />
        </div>
        <div class="field">
          <label for="password">Password</label>
          <input id="password" name="password" type="password" autoComplete="current-password" required />
        </div>
        {wrong && <p class="down" role="alert">{wrong}</p>}
        <button class="primary" disabled={busy}>{busy ? "Signing in…" : "Sign in"}</button>
        <p class="muted small note">
          Accounts are made with <code>agentsignal account create</code>; the demo prints its own at the start. The API is
          described at <a href="/docs">/docs</a>.
        </p>
      </form>
    </main>
  );
}
