// Functions that TestDocsPage evaluates in the page /docs.

// until returns what f returns once that is true, or throws after four minutes.
async function until(what, f) {
  for (const end = Date.now() + 240000; Date.now() < end; await new Promise((done) => setTimeout(done, 10))) {
    const value = f();
    if (value) return value;
  }
  throw new Error("did not happen: " + what);
}

// type writes a value as a person would, and leaves the field.
function type(field, value) {
  Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, value);
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.dispatchEvent(new FocusEvent("focusout", { bubbles: true }));
}

// attempt opens an operation, presses "Try it out", writes the given parameters and
// presses "Execute". It returns the status of the answer, the answer, and what can
// hardly be read, and closes the operation. Only the operations of its tag are shown,
// since the page draws all that are at each step.
async function attempt(operation, values) {
  const tag = ui.specSelectors.taggedOperations().findKey((tagged) =>
    tagged.get("operations").some((o) => o.getIn(["operation", "operationId"]) === operation));
  for (const header of document.querySelectorAll(".opblock-tag")) {
    if ((header.dataset.tag === tag) !== (header.dataset.isOpen === "true")) header.click();
  }
  const block = await until(operation + " is listed", () => document.querySelector(`.opblock[id$="-${operation}"]`));
  block.querySelector(".opblock-summary-control").click();
  const button = await until("Try it out", () => block.querySelector(".try-out__btn"));
  button.click();
  for (const [name, value] of Object.entries(values)) {
    type(await until("parameter " + name, () => block.querySelector(`tr[data-param-name="${name}"] input`)), value);
  }
  (await until("Execute", () => block.querySelector(".execute"))).click();
  const status = await until("an answer", () => block.querySelector(".live-responses-table .response .response-col_status"));
  const body = block.querySelector(".live-responses-table .response pre");
  const result = { status: parseInt(status.innerText), body: body ? body.innerText : "", ...contrasts(block) };
  block.querySelector(".opblock-summary-control").click();
  return result;
}

// channels returns red, green, blue from 0 to 255 and alpha from 0 to 1.
function channels(color) {
  const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
  return [r, g, b, a];
}

function luminance([r, g, b]) {
  const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}

// background returns the colour behind an element, of all layers. known remembers those
// of other elements.
function background(element, known) {
  if (!element) return [255, 255, 255];
  if (!known.has(element)) {
    const [r, g, b, a] = channels(getComputedStyle(element).backgroundColor);
    const under = a === 1 ? [0, 0, 0] : background(element.parentElement, known);
    known.set(element, [r, g, b].map((c, i) => c * a + under[i] * (1 - a)));
  }
  return known.get(element);
}

// contrasts returns how many texts of code and examples there are in an element, and
// those whose contrast is below 4.5, the limit of WCAG 2.2 for text (1.4.3).
function contrasts(root) {
  let count = 0;
  const known = new Map();
  const faint = [];
  for (const box of root.querySelectorAll("pre, code, textarea")) {
    const texts = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
    for (let node; (node = texts.nextNode());) {
      const element = node.parentElement;
      if (!node.data.trim() || !element.checkVisibility()) continue;
      count++;
      const behind = background(element, known);
      const [r, g, b, a] = channels(getComputedStyle(element).color);
      const [low, high] = [behind, [r, g, b].map((c, i) => c * a + behind[i] * (1 - a))].map(luminance).sort((x, y) => x - y);
      const ratio = (high + 0.05) / (low + 0.05);
      if (ratio < 4.5) faint.push(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${node.data.trim().slice(0, 40)}`);
    }
  }
  return { texts: count, faint: [...new Set(faint)].slice(0, 3) };
}

// authorize opens the box and returns what is asked for and where the cursor is.
async function authorize() {
  (await until("the button", () => document.querySelector(".auth-wrapper .authorize"))).click();
  const field = await until("the box", () => document.querySelector(".dialog-ux .modal-ux input"));
  const box = field.getBoundingClientRect();
  return {
    schemes: document.querySelectorAll(".dialog-ux .auth-container").length,
    focused: document.activeElement === field,
    inSight: box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth,
    wide: document.documentElement.scrollWidth > innerWidth,
  };
}

// submit writes a token into the box and closes it.
async function submit(token) {
  type(document.querySelector(".dialog-ux .modal-ux input"), token);
  document.querySelector(".dialog-ux .btn.authorize").click();
  (await until("the token is taken", () => document.querySelector(".dialog-ux .btn-done"))).click();
}
