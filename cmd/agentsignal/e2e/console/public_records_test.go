package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// The page of a public record is readable on a phone, obeys its own policy, and checks its signals in the browser.
func TestPublicRecordInABrowser(t *testing.T) {
	t.Parallel()
	config := e2e.SigningConfig(t, "")
	config.Market.Source = "simulated"
	s := e2e.Start(t, config)
	s.AwaitPrices(t, "BTC", signal.H1)
	owner, account := s.Account(t)
	owner = owner.With(owner.Login(account.Email, e2e.Password).Access)
	var made []e2e.WireSignal
	for range 3 {
		made = append(made, owner.Run("BTC", "momentum"))
	}
	open := owner.Run("BTC", "momentum").ID
	s.CloseAll(t, account.ID, made)
	owner.Proof(open)
	e2e.Eventually(t, "a checkpoint has the closings", func() bool { return owner.Proof(made[2].ID).Closed != nil })
	owner.Do(http.MethodPut, "/v1/account/public",
		`{"slug":"my-record","title":"<b id=bad>Mine</b>","enabled":true,"show_open":true}`).Ok(t)
	for _, width := range []int64{390, 1280} {
		page := newBrowser(t, s.URL+"/r/my-record", width)
		got := evaluate[struct {
			Wide            bool
			Bad             bool
			Colour, Verdict string
			Proved, Rows    int
			Site            string
		}](t, page, `(async () => {
			const refused = [];
			document.addEventListener("securitypolicyviolation", (e) => refused.push(e.violatedDirective));
			for (let i = 0; i < 600 && document.getElementById("verify").hidden; i++) await new Promise((r) => setTimeout(r, 50));
			document.querySelector("#verify button").click();
			const verdict = document.getElementById("verdict");
			for (let i = 0; i < 600 && (verdict.textContent === "" || verdict.textContent === "Checking…"); i++) {
				await new Promise((r) => setTimeout(r, 50));
			}
			return {
				Wide: document.documentElement.scrollWidth > innerWidth,
				Bad: document.getElementById("bad") !== null || refused.length > 0,
				Colour: getComputedStyle(document.querySelector("dl div")).backgroundColor,
				Verdict: verdict.textContent,
				Proved: document.querySelectorAll("tr.proved").length,
				Rows: document.querySelectorAll("tr[id]").length,
				Site: document.getElementById("site").textContent,
			};
		})()`)
		if got.Wide || got.Bad || got.Colour == "rgba(0, 0, 0, 0)" || got.Site != s.URL {
			t.Errorf("at %d pixels: %+v", width, got)
		}
		if got.Rows != 4 || got.Proved != got.Rows || !strings.HasPrefix(got.Verdict,
			"All 4 signals shown are in the checkpoint of") ||
			!strings.Contains(got.Verdict, "4 signals created and 3 closed; among the closed ones shown, none is left out") {
			t.Errorf("at %d pixels: %+v", width, got)
		}
	}
}

// An account shows its record in the console, gives up a name, and switches it off; what cannot be taken back is confirmed.
func TestPublishingInTheConsole(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.SigningConfig(t, ""))
	_, account := s.Account(t)
	public := s.Client(t)
	page := openConsole(t, s.URL, account.Email)
	status := func(slug string, want int) {
		t.Helper()
		e2e.Eventually(t, slug+" answers", func() bool { return public.Get("/r/"+slug).Status == want })
	}
	act(t, page, `location.hash = "#/public"`, `await shows("not shown to anyone", "main")`,
		`await fill("#p-slug", "my-record")`, `await fill("#p-title", "<b>Mine</b>")`, `find("[name=enabled]").click()`,
		`await press("Save")`, `await shows("cannot be taken back", "dialog")`)
	if a := public.Get("/r/my-record"); a.Status != http.StatusNotFound {
		t.Errorf("before it is confirmed: %d", a.Status)
	}
	act(t, page, `await press("Confirm")`, `await shows("Badge in Markdown", "main")`,
		`await until("the badge is there", () => find("main img")?.naturalWidth > 0)`,
		`if (!has("`+s.URL+`/r/my-record/badge.svg", "main")) throw new Error("the code of the badge is not there")`)
	status("my-record", http.StatusOK)
	act(t, page, `await fill("#p-slug", "Admin!")`,
		`if (find("#p-slug").checkValidity()) throw new Error("a slug is not checked")`,
		`await fill("#p-slug", "admin")`, `await press("Save")`, `await press("Confirm")`,
		`await shows("reserved for the service")`, `await press("Cancel")`,
		`await fill("#p-slug", "other-record")`, `await press("Save")`, `await shows("stops working for ever", "dialog")`,
		`await press("Confirm")`, `await until("it has moved", () => has("/r/other-record/badge.svg", "main"))`)
	status("other-record", http.StatusOK)
	status("my-record", http.StatusGone)
	act(t, page, `find("[name=enabled]").click()`, `await press("Save")`, `await shows("not shown to anyone", "main")`)
	status("other-record", http.StatusNotFound)
}
