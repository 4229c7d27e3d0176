package clients

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	api "github.com/agentsignal/agentsignal/http/client"
)

// TestGoClient uses every method of package client on a service. Each exchange is compared with the
// description of the API.
func TestGoClient(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	address, err := api.ParseAddress(s.URL)
	e2e.Must(t, err)
	c := &api.Client{Address: address, Key: trader.Token, HTTP: trader.HTTP}
	ctx := t.Context()

	// The stream shows what the requests below do.
	followed, end := context.WithCancel(ctx)
	defer end()
	messages := make(chan *api.Message, 100)
	stream := &api.Stream{Client: c, Channels: []string{"signal.new", "agent.status"},
		Filters: api.Filters{Assets: []string{"btc"}, Strategies: []string{"momentum"}}}
	ended := make(chan error, 1)
	go func() {
		ended <- stream.Follow(followed, func(m *api.Message) error {
			messages <- m
			return nil
		})
	}()
	next := func(kind string) *api.Message {
		t.Helper()
		for {
			select {
			case m := <-messages:
				if m.Type == kind {
					return m
				}
			case err := <-ended:
				t.Fatalf("the stream ended before %s: %v", kind, err)
			}
		}
	}
	if m := next("subscribed"); m.Subscribed.Gap || len(m.Subscribed.Channels) != 2 {
		t.Errorf("subscribed to %+v", m.Subscribed)
	}

	run := api.RunRequest{Asset: "BTC", Strategy: "momentum", Timeframe: "1h", Risk: "low"}
	made, err := c.Run(ctx, "trading", run)
	e2e.Must(t, err)
	if made.Asset != "BTC" || made.Entry == nil || made.Metadata.Reasoning == "" || made.Metadata.ExpectedRNet == nil {
		t.Errorf("a run gives %+v", made)
	}
	if m := next("agent.status"); m.Agent.Status != "running" || m.Agent.Agent != "trading" {
		t.Errorf("the stream has %+v", m.Agent)
	}
	if m := next("signal.new"); m.Signal.ID != made.ID || *m.Signal.Stop != *made.Stop ||
		!m.Signal.CreatedAt.Equal(made.CreatedAt) {
		t.Errorf("the stream has %+v", m.Signal)
	}
	end()
	if err := <-ended; !errors.Is(err, context.Canceled) || stream.LastID == "" {
		t.Errorf("the stream ended at %q with %v", stream.LastID, err)
	}

	run.Asset = "ETH"
	job, err := c.StartRun(ctx, "trading", run)
	e2e.Must(t, err)
	job, err = c.AwaitJob(ctx, job.ID)
	e2e.Must(t, err)
	if job.Status != "completed" || job.Signal.Asset != "ETH" {
		t.Errorf("the job is %+v", job)
	}
	scan, err := c.StartScan(ctx, "trading", api.ScanRequest{Assets: []string{"BTC", "ETH"}, Strategy: "momentum"})
	e2e.Must(t, err)
	scan, err = c.AwaitJob(ctx, scan.ID)
	e2e.Must(t, err)
	result, err := scan.Scan()
	e2e.Must(t, err)
	if scan.Kind != "scan" || len(result.Ranked)+len(result.Errors) != 2 ||
		len(result.Ranked) > 0 && result.Ranked[0].Entry == nil {
		t.Errorf("the scan gives %s", result.JSON)
	}
	jobs, err := api.Collect(c.Jobs(ctx, "completed", 0))
	e2e.Must(t, err)
	if len(jobs) != 2 || jobs[0].ID != scan.ID {
		t.Errorf("%d jobs are listed", len(jobs))
	}

	signals, err := api.Collect(c.Signals(ctx, api.SignalQuery{Asset: "btc", Agent: "trading", Strategy: "momentum",
		Direction: made.Direction, MinConfidence: made.Confidence, Since: made.CreatedAt.Add(-1)}, 0))
	e2e.Must(t, err)
	if len(signals) != 1 || signals[0].ID != made.ID || signals[0].Status == "" || signals[0].ExpiresAt.IsZero() {
		t.Errorf("%d signals are listed", len(signals))
	}
	shown, err := c.Signal(ctx, made.ID)
	e2e.Must(t, err)
	history, err := c.History(ctx, made.ID)
	e2e.Must(t, err)
	if shown.Initial != made.Confidence || len(history.Changes) == 0 || history.Changes[0].Type != "created" {
		t.Errorf("%+v with the history %+v", shown, history)
	}
	for _, format := range []string{"csv", "jsonl"} {
		var out bytes.Buffer
		n, err := c.Export(ctx, api.SignalQuery{}, format, &out)
		e2e.Must(t, err)
		if n != int64(out.Len()) || !strings.Contains(out.String(), made.ID) || !strings.Contains(out.String(), job.Signal.ID) {
			t.Errorf("the export as %s is %s", format, out.String())
		}
	}
	card, err := c.Scorecard(ctx, api.ScoreQuery{Agent: "trading", Timeframe: "1h"})
	e2e.Must(t, err)
	if card.Statistics.Count != 0 || card.Statistics.HitRate != nil {
		t.Errorf("the scorecard is %s", card.JSON)
	}
	list, err := c.Assets(ctx)
	e2e.Must(t, err)
	if !slices.ContainsFunc(list, func(a *api.Asset) bool { return a.Asset == "BTC" && a.Class == "crypto" && a.JSON != nil }) {
		t.Errorf("the assets are %v", list)
	}

	trader.Post("/v1/schedules", `{"agent_id":"trading","assets":["BTC"],"strategy":"breakout","every":"60m"}`).Ok(t)
	schedules, err := api.Collect(c.Schedules(ctx))
	e2e.Must(t, err)
	if len(schedules) != 1 || schedules[0].NextRunAt == nil || schedules[0].Strategy != "breakout" {
		t.Errorf("the schedules are %+v", schedules)
	}
	hook, err := c.CreateWebhook(ctx, api.NewWebhook{URL: "https://webhook.invalid/x", Events: []string{"signal.closed"}})
	e2e.Must(t, err)
	hooks, err := api.Collect(c.Webhooks(ctx))
	e2e.Must(t, err)
	deliveries, err := api.Collect(c.Deliveries(ctx, hook.ID, "failed", 10))
	e2e.Must(t, err)
	retried, err := c.RetryDeliveries(ctx, hook.ID)
	e2e.Must(t, err)
	if len(hooks) != 1 || hooks[0].ID != hook.ID || len(deliveries) != 0 || retried.Count != 0 {
		t.Errorf("webhooks %+v, deliveries %+v, retried %+v", hooks, deliveries, retried)
	}
	_, err = c.RetryDelivery(ctx, hook.ID, "dlv_01M7YQ1X7PE2DGEP087XGX6XDW")
	fails(t, err, http.StatusNotFound, "not_found")
	e2e.Must(t, c.RemoveWebhook(ctx, hook.ID))

	_, err = c.Run(ctx, "trading", api.RunRequest{Asset: "BTC", Strategy: "nosuch"})
	if p := fails(t, err, http.StatusBadRequest, "invalid_request"); len(p.Errors) != 1 || p.Errors[0].Pointer != "/strategy" {
		t.Errorf("the faults are %+v", p.Errors)
	}
	_, err = c.CreateKey(ctx, api.NewAPIKey{Name: "by a key"})
	fails(t, err, http.StatusUnauthorized, "jwt_required")
	who, err := c.Account(ctx)
	e2e.Must(t, err)
	public := &api.Client{Address: address, HTTP: trader.HTTP}
	_, err = public.Login(ctx, who.Email, "not the password")
	fails(t, err, http.StatusUnauthorized, "invalid_credentials")
	session, err := public.Login(ctx, who.Email, e2e.Password)
	e2e.Must(t, err)
	user := &api.Client{Address: address, Key: session.AccessToken, HTTP: trader.HTTP}
	key, err := user.CreateKey(ctx, api.NewAPIKey{Name: "laptop", Scopes: []string{"signals:read"}, ExpiresIn: 60})
	e2e.Must(t, err)
	e2e.Must(t, user.RevokeKey(ctx, key.ID))
	reader, err := user.CreateKey(ctx, api.NewAPIKey{Name: "reader", MaxConnections: 2,
		View: &api.View{Assets: []string{"bitcoin"}, Strategies: []string{}}})
	e2e.Must(t, err)
	if d := cmp.Diff(&api.View{Assets: []string{"BTC"}, Strategies: []string{}}, reader.View); d != "" ||
		reader.MaxConnections != 2 || reader.Notice == "" {
		t.Errorf("reader %+v (-want +got):\n%s", reader, d)
	}
	readers, err := user.CreateReaders(ctx, api.NewReaders{NamePrefix: "reader", Count: 2})
	e2e.Must(t, err)
	if len(readers) != 2 || readers[1].Name != "reader-2" || readers[1].Secret == "" {
		t.Errorf("readers %+v", readers)
	}
	if n, err := user.RevokeReaders(ctx, "reader-"); n != 2 || err != nil {
		t.Errorf("revoked %d readers, %v", n, err)
	}
	e2e.Must(t, user.Logout(ctx))
	_, err = user.Account(ctx)
	fails(t, err, http.StatusUnauthorized, "invalid_token")
	ready, err := public.Ready(ctx)
	e2e.Must(t, err)
	if who.ID != string(account.ID) || len(key.Scopes) != 1 || key.ExpiresAt == nil || ready.Status != "ready" {
		t.Errorf("account %+v, key %+v, readiness %+v", who, key, ready)
	}
}

// fails fails the test unless err is a problem with the status and the code, which it returns.
func fails(t *testing.T, err error, status int, code string) *api.Problem {
	t.Helper()
	p, ok := errors.AsType[*api.Problem](err)
	if !ok || p.Status != status || p.Code != code || p.RequestID == "" {
		t.Fatalf("the error is %v, want %d %s", err, status, code)
	}
	return p
}
