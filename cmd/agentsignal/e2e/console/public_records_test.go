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
