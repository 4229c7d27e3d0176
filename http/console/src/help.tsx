import { pages } from "./layout";
import * as keys from "./keys";
import { Dialog } from "./ui/kit";

const list: [string, string][] = [
  ["j  k", "next and previous signal"],
  ["Enter", "open the signal"],
  ["/", "filter by asset"],
  ["space", "hold the list, or let it go"],
  ["u", "to the top, with what is new"],
  ...pages.map((p): [string, string] => [`g ${p.key}`, p.name]),
  ["?", "this list"],
];

/** The keys, and the words of this console. */
export function Help() {
  return (
    <Dialog title="Help" onClose={() => (keys.helpOpen.value = false)}>
      <dl class="pairs keys">
        {list.map(([key, what]) => (
          <>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={keys.enabled.value} onChange={(event) => keys.setEnabled(event.currentTarget.checked)} />
        Single-key shortcuts are on
      </label>
      <p class="soft">
        <strong>R</strong> is the distance from entry to stop: −1 R is the loss at the stop, +2 R twice that as a gain. The{" "}
        <strong>chance</strong> is the probability that a signal closes in profit; <strong>needs</strong> is what it must be to
        pay for losses and costs.
      </p>
      <p class="small"><a href="/docs">API</a></p>
      <div class="row"><button type="button" onClick={() => (keys.helpOpen.value = false)}>Close</button></div>
    </Dialog>
  );
}
