package durability

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestQueuedAlertsSurviveKillNine: alerts that were acknowledged while there were no prices. After the restart each becomes
// a signal once, or is in the list of requests with the reason why not.
func TestQueuedAlertsSurviveKillNine(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	rdb := redis.Client()
	// Another node feeds the market, so that this one waits for the first price.
	e2e.Must(t, rdb.Set(t.Context(), e2e.NewKeys.FeederKey(), "another 1", 0).Err())
	e2e.Must(t, rdb.Set(t.Context(), e2e.NewKeys.FeederEpochKey(), 1, 0).Err())
	settings := e2e.ChildSettings(t, redis.URL(), "AUTH_REGISTRATION=open", "LEASE=6s", "MARKET_SOURCE=simulated",
		"MARKET_SPEED=1")
	first := e2e.LaunchReady(t, settings...)
	public, email := first.Client(t), e2e.NewEmail()
	public.Post("/v1/auth/register", e2e.CredentialsBody(email, e2e.Password)).Want(t, http.StatusCreated)
	ada := public.With(public.Login(email, e2e.Password).Access)
	ada.Post("/v1/agents", `{"id":"my_agent","name":"My agent","category":"trading","strategies":["cross"],
		"defaults":{"timeframe":"1m"}}`).Want(t, http.StatusCreated)
	in := e2e.AddIntake(t, ada, "my_agent")
	texts := []string{"buy BTC note=1", "buy BTC note=2", "sell ETH", "sell ETH"} // the last two are one alert
	for _, text := range texts {
		if a := e2e.SendAlert(ada, in, text).Want(t, http.StatusAccepted); !strings.Contains(a.Body, `"reason":"queued"`) {
			t.Error(a.Body)
		}
	}
	acknowledged := time.Now()
	if list := e2e.IntakeRequests(t, ada, "my_agent", in); len(list) != 0 {
		t.Fatalf("they ended without prices: %+v", list)
	}
	first.Kill()

	e2e.Must(t, rdb.Del(t.Context(), e2e.NewKeys.FeederKey()).Err())
	ada = ada.At(e2e.LaunchReady(t, settings...).URL)
	var list []e2e.IntakeRequest
	e2e.Eventually(t, "all alerts have ended", func() bool {
		list = e2e.IntakeRequests(t, ada, "my_agent", in)
		return len(list) >= len(texts)
	})
	ended, signals, expired := map[string]int{}, map[string]bool{}, 0
	for _, r := range list {
		ended[r.Body]++
		switch {
		case r.Status != http.StatusAccepted:
			t.Errorf("%+v", r)
		case r.SignalID != nil && r.Reason != "repeated":
			signals[*r.SignalID] = true
		case r.Reason == "repeated" && r.Body == "sell ETH":
		case r.Error != nil && r.Error.Code == "expired_alert":
			expired++
		default:
			t.Errorf("%+v", r)
		}
	}
	if len(list) != len(texts) || ended[texts[0]] != 1 || ended[texts[1]] != 1 || ended["sell ETH"] != 2 {
		t.Errorf("%d requests ended: %+v", len(list), list)
	}
	if made := ada.AllSignals(); len(made) != len(signals) {
		t.Errorf("%d signals are listed, %d alerts made one", len(made), len(signals))
	}
	// A slow machine may need longer than an alert may wait.
	if len(signals) != 3 && (expired == 0 || time.Since(acknowledged) < time.Minute) {
		t.Errorf("%d signals, %d alerts expired: %+v", len(signals), expired, list)
	}
}
