// Helpers of the console's tests. They use the page as a person does: by its controls and its text.

async function until(what, f, ms = 60000) {
  const end = performance.now() + ms;
  for (;;) {
    const value = f();
    if (value) return value;
    if (performance.now() > end) throw new Error(`${what} did not happen; the page has: ${document.body.innerText}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const find = (selector) => document.querySelector(selector);
const has = (text, within = "body") => find(within)?.innerText.includes(text) ?? false;
const shows = (text, within) => until(`"${text}" is shown`, () => has(text, within));
const control = (text) =>
  [...document.querySelectorAll("button, a, summary")].filter((e) => e.getClientRects().length > 0 && (e.innerText.trim() === text || e.getAttribute("aria-label") === text)).at(-1);

async function press(text) {
  (await until(`the control "${text}" is there`, () => control(text))).click();
}

async function fill(selector, value) {
  const e = await until(`${selector} is there`, () => find(selector));
  e.value = value;
  e.dispatchEvent(new Event(e.tagName === "SELECT" ? "change" : "input", { bubbles: true }));
}

async function signIn(email, password) {
  await fill("#email", email);
  await fill("#password", password);
  find("form").requestSubmit();
  await until("the stream is live", () => find(".state.live"));
}

// Everything that axe-core finds wrong, one line each.
async function violations() {
  const result = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] });
  return result.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target} ${n.any.map((a) => a.message)}`));
}

// Waits until what was drawn for another size or theme has been drawn again.
async function settled() {
  await document.fonts.ready;
  await new Promise((resolve) => setTimeout(resolve, 400));
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
}
