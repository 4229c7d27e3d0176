// What the benchmark asks of the page. It only reads what a reader sees.

const find = (selector) => document.querySelector(selector);

async function until(what, f) {
  const end = performance.now() + 60000;
  while (!f()) {
    if (performance.now() > end) throw new Error(`not in a minute: ${what}; the page has: ${document.body.innerText}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function signIn(email, password) {
  await until("the page asks for an account", () => find("#email"));
  find("#email").value = email;
  find("#password").value = password;
  find("form").requestSubmit();
  await until("the stream is live", () => find(".state.live"));
}

// The rows that are drawn, from the top, with their place on the screen.
function rows() {
  return [...document.querySelectorAll("[data-row]")]
    .map((link) => {
      const row = link.closest("[role=row]");
      const index = Number(row.getAttribute("aria-rowindex"));
      const top = Math.round(row.getBoundingClientRect().top);
      return { id: link.dataset.row, index, closed: row.classList.contains("closed"), top };
    })
    .sort((a, b) => a.index - b.index);
}

const isOnScreen = (row) => row.top >= 0 && row.top < innerHeight;

const millisecondsIn = (text) => (/ ms$/.test(text) ? parseInt(text.replace(/\D/g, ""), 10) : 1000);

// The note of an interruption, or nothing.
function interruption() {
  const notes = [...document.querySelectorAll(".strip")].map((e) => e.innerText.split("\n")[0]);
  return notes.find((text) => /^(Gap|Resumed|The service does not)/.test(text)) ?? "";
}

function look() {
  const behind = find(".state.live .muted")?.innerText;
  const drawn = rows();
  return {
    rows: Number(find("[role=table]").getAttribute("aria-rowcount")) - 1,
    drawn: drawn.length,
    nodes: document.querySelectorAll("*").length,
    fit: Math.ceil(innerHeight / (find(".line")?.offsetHeight ?? innerHeight)),
    shown: drawn.filter(isOnScreen).map((r) => ({ id: r.id, index: r.index, top: r.top })),
    pill: find(".pill").innerText.replace(/[↑,]/g, "").trim(),
    behind: behind ? millisecondsIn(behind) : 0,
    interrupted: interruption(),
  };
}

const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));

// Every row of the list, as one sees them who scrolls from its top to its end.
async function walk() {
  const found = new Map();
  for (let top = 0; ; top += innerHeight / 2) {
    scrollTo(0, top);
    // The page measures in one frame and draws in the next.
    for (let n = 0; n < 4; n++) await frame();
    for (const row of rows()) found.set(row.index, row);
    if (scrollY + innerHeight >= document.documentElement.scrollHeight - 1) break;
  }
  scrollTo(0, 0);
  return [...found.values()].sort((a, b) => a.index - b.index).map(({ id, index, closed }) => ({ id, index, closed }));
}

const hold = () => [...document.querySelectorAll("button")].find((e) => /^(Hold|Held)/.test(e.innerText)).click();
const toMiddle = () => scrollTo(0, document.documentElement.scrollHeight / 2);
const pressPill = () => find(".pill button").click();

// Closes the note of a gap, and waits until that of a resume has gone.
async function understood() {
  [...document.querySelectorAll(".strip button")].find((e) => e.innerText === "Understood")?.click();
  await until("the notes are gone", () => !interruption());
}
