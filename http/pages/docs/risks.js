"use strict";
// What /readyz warns of is shown on every page: that answers may be lost, or that prices are simulated.
fetch("/readyz", { cache: "no-store", credentials: "omit" })
  .then((answer) => answer.json())
  .then(({ warnings }) => {
    const nav = document.querySelector("nav");
    const next = nav.nextSibling;
    for (const text of warnings) {
      const risk = document.createElement("p");
      risk.className = "risk";
      risk.textContent = text;
      nav.parentNode.insertBefore(risk, next);
    }
  })
  .catch(() => {}); // the page itself does not depend on it
