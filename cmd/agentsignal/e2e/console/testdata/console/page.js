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
  find("#email").form.requestSubmit();
  await until("the stream is live", () => find(".state.live"));
}

// Everything that axe-core finds wrong, one line each.
async function violations() {
  const result = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
  return result.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target} ${n.any.map((a) => a.message)}`));
}

// Waits until what was drawn for another size or theme has been drawn again.
async function settled() {
  await document.fonts.ready;
  await new Promise((resolve) => setTimeout(resolve, 400));
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
}

// Presses a key as if nothing but the page had the focus, or where the focus is.
const strike = (key, at = document.activeElement ?? document.body) =>
  at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));

// Fails if the page made a mistake that nothing handles.
function sound() {
  if (mistakes.length > 0) throw new Error(`mistakes of the page: ${mistakes.join("; ")}`);
}

// What is wider than the page. What scrolls by itself, such as a table, may be.
function wide() {
  if (document.documentElement.scrollWidth <= innerWidth) return [];
  return [...document.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.parentElement.closest(".scroll"))
    .map((e) => `${e.tagName.toLowerCase()}.${e.className} ${e.innerText?.slice(0, 40)}`);
}

// Targets of less than 24 px, but for links in running text (WCAG 2.5.8).
function small() {
  return [...document.querySelectorAll("a, button, input, select, textarea, summary")]
    .filter((e) => e.getClientRects().length > 0 && !e.closest(".sr, .skip") && !(e.tagName === "A" && e.closest("p")))
    .filter((e) => {
      const own = e.getBoundingClientRect();
      const label = e.closest("label")?.getBoundingClientRect();
      const box = label && label.height > own.height ? label : own;
      const grown = getComputedStyle(e, "::after").position === "absolute"; // the link of a row covers it
      return !grown && (box.height < 23.5 || box.width < 23.5);
    })
    .map((e) => `${e.tagName.toLowerCase()} "${e.innerText || e.id}" ${Math.round(e.getBoundingClientRect().width)}x${Math.round(e.getBoundingClientRect().height)}`);
}

// How much of a box is below what sticks to the top of the page, or out of the window, in pixels.
function unseen(box) {
  const over = [...document.querySelectorAll(".top, .live-head")]
    .filter((e) => getComputedStyle(e).position === "sticky" && e.getClientRects().length > 0)
    .map((e) => e.getBoundingClientRect())
    .map((h) => Math.min(box.bottom, h.bottom) - Math.max(box.top, h.top));
  return Math.max(0, ...over, -box.top, box.bottom - innerHeight);
}

// What is below the header when it gets the focus, from the end of the page to its beginning (WCAG 2.4.11).
function covered() {
  const all = [...document.querySelectorAll("main a, main button, main input, main select, main textarea, main summary")];
  return all
    .filter((e) => e.getClientRects().length > 0 && !e.disabled && !e.closest(".sr, .live-head, .pill"))
    .reverse()
    .filter((e) => {
      e.focus();
      const box = e.getBoundingClientRect();
      return document.activeElement === e && unseen(box) > box.height - 4;
    })
    .map((e) => `${e.tagName.toLowerCase()} "${(e.innerText || e.id).slice(0, 40)}" at ${Math.round(e.getBoundingClientRect().top)}`);
}
