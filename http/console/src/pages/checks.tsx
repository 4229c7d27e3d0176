import { words } from "../format";

/** The checks of a text, with those that it fails. */
export function Checks({ names, failed }: { names: string[]; failed: string[] }) {
  return (
    <ul class="checks">
      {names.map((name) => (
        <li key={name}>
          {failed.includes(name) ? <span class="down strong">✕ fails </span> : <span class="up strong">✓<span class="sr"> passes</span> </span>}
          {words(name)}
        </li>
      ))}
    </ul>
  );
}
