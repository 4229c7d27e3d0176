/** Returns the beginning of a text, cut between two words. */
export function excerpt(text: string, length: number): string {
  if (text.length <= length) return text;
  return text.slice(0, length).replace(/\s+\S*$/, "") + "\u00a0…";
}

/**
 * A text in which headings, list items and bold words are shown as such. It knows no other markup, and makes elements,
 * never HTML from text.
 */
export function Prose({ text }: { text: string }) {
  const blocks = text.split(/\n{2,}/).filter((block) => block.trim() !== "");
  return (
    <div class="content-text">
      {blocks.map((block, i) => {
        const heading = /^#{1,6} +(.*)$/.exec(block);
        return heading ? <p key={i} class="heading">{bold(heading[1]!)}</p> : <p key={i}>{bold(block.replace(/^[-*] /gm, "• "))}</p>;
      })}
    </div>
  );
}

/** Splits at pairs of "**": every second part stood between two of them. */
function bold(text: string) {
  return text.split("**").map((part, i) => (i % 2 === 1 ? <strong key={i}>{part}</strong> : part));
}
