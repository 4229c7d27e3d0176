package http_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/credentials"
)

func TestRunAnswersWithExactlyTheSignal(t *testing.T) {
	t.Parallel()
	var got signal.RunRequest
	f := &fakes{run: func(_ context.Context, req signal.RunRequest) (agent.Outcome, error) {
		got = req
		return agent.Outcome{Run: runID, Signal: newSignal()}, nil
	}}
	a := do(t, newServer(t, f), "POST", "/v1/agents/trading/run",
		`{"asset":" BTC ","strategy":"momentum","risk_level":null}`)
	want := `{"signal_id":"sig_01M7YQ1WTVKN9DZNWV9NV456V1","agent_id":"trading","asset":"BTC","strategy":"momentum",` +
		`"direction":"long",` +
		`"confidence":0.4372,"entry_price":64250.125,"stop_loss":62900.125,"take_profit":66275.125,` +
		`"metadata":{"indicators":["ema_12_26"],"reasoning":"EMA12 is above EMA26."},` +
		`"created_at":"2026-11-21T09:30:00.000Z"}`
	if a.Status != 200 || a.Body != want {
		t.Errorf("got %d %s\nwant %s", a.Status, a.Body, want)
	}
	if got := a.Header.Get("X-Run-Id"); got != string(runID) {
		t.Errorf("X-Run-Id %q", got)
	}
	wantReq := signal.RunRequest{Account: accountID, Agent: "trading", Asset: "BTC", Strategy: "momentum",
		Timeframe: signal.H1, Risk: signal.MediumRisk}
	if d := cmp.Diff(wantReq, got); d != "" {
		t.Errorf("request (-want +got):\n%s", d)
	}
}

func TestRunReadsEveryMember(t *testing.T) {
	t.Parallel()
	var got signal.RunRequest
	f := &fakes{run: func(_ context.Context, req signal.RunRequest) (agent.Outcome, error) {
		got = req
		s := newSignal()
		s.Levels, s.Agent, s.Strategy, s.Asset = nil, "seo", "blog_post", "stand\"ing desk"
		return agent.Outcome{Run: runID, Signal: s}, nil
	}}
	a := do(t, newServer(t, f), "POST", "/v1/agents/seo/run", `{"asset":"stand\"ing desk","strategy":"blog_post",
		"timeframe":"1d","risk_level":"high",
		"async":false,"parameters":{"keywords":["desk","\u00e9lan"],"features":[],"locale":"en-US"}}`)
	if a.Status != 200 || !strings.Contains(a.Body, `"entry_price":null,"stop_loss":null,"take_profit":null`) {
		t.Fatalf("got %d %s", a.Status, a.Body)
	}
	want := signal.RunRequest{Account: accountID, Agent: "seo", Asset: `stand"ing desk`, Strategy: "blog_post",
		Timeframe: signal.D1, Risk: signal.HighRisk,
		Parameters: signal.Parameters{Keywords: []string{"desk", "élan"}, Features: []string{}, Locale: "en-US"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("request (-want +got):\n%s", d)
	}
}

func TestRunGoesOnWhenItsClientLeaves(t *testing.T) {
	t.Parallel()
	f := &fakes{run: func(ctx context.Context, _ signal.RunRequest) (agent.Outcome, error) {
		if ctx.Done() != nil {
			return agent.Outcome{}, errors.New("the run's context can be cancelled")
		}
		return agent.Outcome{Run: runID, Signal: newSignal()}, nil
	}}
	if a := do(t, newServer(t, f), "POST", "/v1/agents/trading/run",
		`{"asset":"BTC","strategy":"momentum"}`); a.Status != 200 {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

func TestFailedRunIsAnsweredWithItsCode(t *testing.T) {
	t.Parallel()
	f := &fakes{run: func(context.Context, signal.RunRequest) (agent.Outcome, error) {
		return agent.Outcome{Run: runID}, &signal.RunError{Code: signal.StaleData, Message: "the last tick is too old",
			Retryable: true, RetryAfter: 1500 * time.Millisecond}
	}}
	a := do(t, newServer(t, f), "POST", "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum"}`)
	p := a.problem(t)
	if a.Status != 500 || p.Code != "agent_failed" || p.RunID != string(runID) || p.ErrorCode != "STALE_DATA" ||
		!p.Retryable || p.Detail != "the last tick is too old" {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	if a.Header.Get("Retry-After") != "2" || a.Header.Get("X-Run-Id") != string(runID) {
		t.Errorf("headers %v", a.Header)
	}
}

// What passes by itself is no failure of the agent: clients and load balancers ask again, or another node.
func TestARunThatFailsForAMomentIsAnswered503(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{time.Second: "1", 0: "5"} {
		f := &fakes{run: func(context.Context, signal.RunRequest) (agent.Outcome, error) {
			return agent.Outcome{Run: runID}, fmt.Errorf("run: %w", &signal.RunError{Code: signal.DataUnavailable,
				Message: "prices cannot be read at the moment", Retryable: true, Passing: true, RetryAfter: wait})
		}}
		a := do(t, newServer(t, f), "POST", "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum"}`)
		p := a.problem(t)
		if a.Status != 503 || p.Code != "unavailable" || p.Detail != "prices cannot be read at the moment" {
			t.Errorf("got %d %s", a.Status, a.Body)
		}
		if a.Header.Get("Retry-After") != want || a.Header.Get("X-Run-Id") != string(runID) {
			t.Errorf("headers %v", a.Header)
		}
	}
}

func TestAsyncRunAnswersWithItsJob(t *testing.T) {
	t.Parallel()
	var kept *signal.Reply
	f := &fakes{submit: func(req signal.RunRequest, reply func(signal.Job) *signal.Reply) (signal.Job, error) {
		kept = reply(newJob())
		return newJob(), nil
	}}
	s := newServer(t, f)
	want := `{"job_id":"job_01M7YQ1WJ9KX5V8WQ8KXDH917J","run_id":"run_01M7YQ1WPJA84WKP9M7T9BM2EX",` +
		`"agent_id":"trading",` +
		`"asset":"BTC",` +
		`"strategy":"momentum","timeframe":"1h","risk_level":"medium","status":"queued",` +
		`"created_at":"2026-11-21T09:30:00.000Z",` +
		`"started_at":null,"completed_at":null,"expires_at":null,"signal":null,"error":null}`
	a := do(t, s, "POST", "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum","async":true}`)
	if a.Status != 200 || a.Body != want {
		t.Errorf("got %d %s\nwant %s", a.Status, a.Body, want)
	}
	if got := a.Header.Get("Location") + " " + a.Header.Get("Retry-After"); got != "/v1/jobs/"+string(jobID)+" 1" {
		t.Errorf("Location and Retry-After: %s", got)
	}
	if kept != nil {
		t.Errorf("without an Idempotency-Key a reply is kept: %+v", kept)
	}
	do(t, s, "POST", "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum","async":true}`,
		"Idempotency-Key: k1")
	if kept == nil || string(kept.Body) != want || kept.Status != 200 ||
		kept.Header["Location"] != "/v1/jobs/"+string(jobID) || kept.Key != "k1" {
		t.Errorf("kept reply: %+v", kept)
	}
}

func TestJobsShowHowTheyEnded(t *testing.T) {
	t.Parallel()
	completed, failed := newJob(), newJob()
	completed.Status, completed.Signal = signal.JobCompleted, newSignal()
	completed.StartedAt, completed.CompletedAt, completed.ExpiresAt = morning, morning.Add(time.Second),
		morning.Add(time.Hour)
	failed.Status, failed.Error = signal.JobFailed,
		&signal.RunError{Code: signal.DataUnavailable, Message: "no source knows NOSUCH"}
	f := &fakes{
		job: func(account signal.AccountID, id signal.JobID) (signal.Job, error) { return completed, nil },
		jobs: func(account signal.AccountID, status signal.JobStatus, limit, offset int) ([]signal.Job, int, error) {
			if account != accountID || status != signal.JobFailed || limit != 2 || offset != 1 {
				t.Errorf("asked for %s %s %d %d", account, status, limit, offset)
			}
			return []signal.Job{failed}, 3, nil
		},
	}
	s := newServer(t, f)
	if a := do(t, s, "GET", "/v1/jobs/"+string(jobID), ""); a.Status != 200 || a.Header.Get("Retry-After") != "" ||
		!strings.Contains(a.Body, `"signal":{"signal_id"`) {
		t.Errorf("completed: %d %v %s", a.Status, a.Header, a.Body)
	}
	a := do(t, s, "GET", "/v1/jobs?status=error&limit=2&offset=1", "")
	for _, part := range []string{`"error":{"error_code":"DATA_UNAVAILABLE","message":"no source knows NOSUCH",` +
		`"retryable":false}`, `"total":3,"limit":2,"offset":1,"has_more":true}`} {
		if !strings.Contains(a.Body, part) {
			t.Errorf("no %s in %s", part, a.Body)
		}
	}
	f.job = nil
	if a := do(t, s, "GET", "/v1/jobs/"+string(jobID), ""); a.Header.Get("Retry-After") != "1" {
		t.Errorf("queued: %v", a.Header)
	}
}

func TestListSignalsPassesEveryFilterOn(t *testing.T) {
	t.Parallel()
	var got catalogue.Query
	f := &fakes{list: func(q catalogue.Query) ([]signal.Listing, int, error) {
		got = q
		content := newSignal()
		content.Levels = nil
		return []signal.Listing{newSignal().Listing(), content.Listing()}, 9, nil
	}}
	s := newServer(t, f)
	a := do(t, s, "GET", "/v1/signals?asset=btc&strategy=momentum&direction=short&min_confidence=0.25&limit=2&offset=3"+
		"&since=2026-11-21T10:30:00%2B01:00&status=open&agent_id=trading", "")
	item := `{"signal_id":"sig_01M7YQ1WTVKN9DZNWV9NV456V1","agent_id":"trading","asset":"BTC","strategy":"momentum",` +
		`"direction":"long","confidence":0.4372,"entry_price":`
	want := `{"signals":[` + item + `64250.125,"created_at":"2026-11-21T09:30:00.000Z"},` + item +
		`null,"created_at":"2026-11-21T09:30:00.000Z"}],"total":9,"limit":2,"offset":3,"has_more":true}`
	if a.Status != 200 || a.Body != want {
		t.Errorf("got %d %s\nwant %s", a.Status, a.Body, want)
	}
	wantQuery := catalogue.Query{Account: accountID, Asset: "btc", Strategy: "momentum", Agent: "trading",
		Direction: signal.Short, Status: signal.Open, MinConfidence: 0.25, Since: morning, Limit: 2, Offset: 3}
	if d := cmp.Diff(wantQuery, got); d != "" {
		t.Errorf("query (-want +got):\n%s", d)
	}
	do(t, s, "GET", "/v1/signals?asset=&strategy=&direction=&min_confidence=&limit=&offset=&since=&status="+
		"&agent_id=", "")
	if d := cmp.Diff(catalogue.Query{Account: accountID, Limit: 25}, got); d != "" {
		t.Errorf("empty values are not as absent (-want +got):\n%s", d)
	}
}

func TestListPastTheEndIsEmpty(t *testing.T) {
	t.Parallel()
	f := &fakes{list: func(q catalogue.Query) ([]signal.Listing, int, error) { return nil, 7, nil }}
	a := do(t, newServer(t, f), "GET", "/v1/signals?offset=00123456789012345678901234567890", "")
	if want := `{"signals":[],"total":7,"limit":25,` +
		`"offset":123456789012345678901234567890,"has_more":false}`; a.Body != want {
		t.Errorf("got %s want %s", a.Body, want)
	}
}

func TestSignalShowsItsState(t *testing.T) {
	t.Parallel()
	exit, percent, absolute := 66275.125, 3.1517, 2025.0
	closed := newSignal()
	closed.FirstConfidence, closed.Confidence, closed.MFE, closed.MAE = .4372, .9312, 1.5, -0.3125
	closed.UpdatedAt = morning.Add(272*time.Minute + 10250*time.Millisecond)
	closed.Closing = &signal.Closing{Reason: signal.TakeProfit, At: closed.UpdatedAt, ExitPrice: &exit,
		PnLPercent: &percent, PnLAbsolute: &absolute, DurationMinutes: 272}
	f := &fakes{record: func(signal.SignalID, signal.Position, signal.Position) (*signal.Signal, error) {
		return closed, nil
	}}
	s := newServer(t, f)
	a := do(t, s, "GET", "/v1/signals/"+string(signalID), "")
	if want := `"status":"closed","updated_at":"2026-11-21T14:02:10.250Z","expires_at":"2026-11-22T09:30:00.000Z",` +
		`"closed_at":"2026-11-21T14:02:10.250Z",` +
		`"close_reason":"take_profit","exit_price":66275.125,"pnl_percent":3.1517,"pnl_absolute":2025,` +
		`"duration_minutes":272,"initial_confidence":0.4372,"final_confidence":0.9312,` +
		`"r":1.5,"mfe_r":1.5,"mae_r":-0.3125}`; !strings.HasSuffix(a.Body, want) ||
		!strings.Contains(a.Body, `"direction":"long","confidence":0.4372,`) {
		t.Errorf("got %s\nwant at its end %s", a.Body, want)
	}
	if closed.Confidence != .9312 {
		t.Error("the record was changed")
	}
	f.record = nil
	a = do(t, s, "GET", "/v1/signals/"+string(signalID), "")
	if want := `"closed_at":null,"close_reason":null,"exit_price":null,"pnl_percent":null,"pnl_absolute":null,` +
		`"duration_minutes":null,"initial_confidence":0.4372,"final_confidence":null,` +
		`"r":null,"mfe_r":null,"mae_r":null}`; !strings.HasSuffix(a.Body, want) {
		t.Errorf("open: %s", a.Body)
	}
	// Content closes without prices.
	closed.Levels, closed.Closing = nil, &signal.Closing{Reason: signal.Expired, At: closed.UpdatedAt}
	f.record = func(signal.SignalID, signal.Position, signal.Position) (*signal.Signal, error) { return closed, nil }
	a = do(t, s, "GET", "/v1/signals/"+string(signalID), "")
	if want := `"duration_minutes":0,"initial_confidence":0.4372,"final_confidence":0.9312,` +
		`"r":null,"mfe_r":null,"mae_r":null}`; !strings.HasSuffix(a.Body, want) {
		t.Errorf("content: %s", a.Body)
	}
}

func TestSignalThatClosesMeanwhileIsFound(t *testing.T) {
	t.Parallel()
	asked := 0
	f := &fakes{
		find: func(signal.AccountID, signal.SignalID) (created, closed signal.Position, err error) {
			asked++
			return signal.Position{MS: 1}, signal.Position{MS: int64(asked - 1)}, nil
		},
		record: func(_ signal.SignalID, _, closed signal.Position) (*signal.Signal, error) {
			if closed.IsZero() {
				return nil, signal.NotFound("signal")
			}
			return newSignal(), nil
		},
	}
	if a := do(t, newServer(t, f), "GET", "/v1/signals/"+string(signalID), ""); a.Status != 200 || asked != 2 {
		t.Errorf("got %d after %d questions", a.Status, asked)
	}
}

// fakeWeather holds one weather signal.
type fakeWeather struct{ asked catalogue.WeatherQuery }

var weatherSignal = signal.WeatherSignal{ID: "wsig_01M7YQ1WTVKN9DZNWV9NV456V1", Direction: signal.Long,
	Confidence: 0.61239, Initial: 0.44831, CreatedAt: morning,
	Outlook: signal.Outlook{Commodity: "natural_gas", Region: "us", ExpectedImpact: "+1.4 % in 5 days",
		Event: signal.WeatherEvent{Type: "cold_snap", Severity: "high", Location: "Chicago", ForecastDate: "2026-11-24",
			Deviation: -7.4}}}

func (w *fakeWeather) WeatherSignals(_ context.Context, q catalogue.WeatherQuery) ([]signal.WeatherSignal, int, error) {
	w.asked = q
	return []signal.WeatherSignal{weatherSignal, weatherSignal}, 7, nil
}

func (w *fakeWeather) WeatherSignal(
	_ context.Context, _ signal.AccountID, _ *signal.View, id string,
) (signal.WeatherSignal, error) {
	if id != string(weatherSignal.ID) {
		return signal.WeatherSignal{}, signal.NotFound("weather signal")
	}
	return weatherSignal, nil
}

func TestWeatherSignalsAreShown(t *testing.T) {
	t.Parallel()
	w := &fakeWeather{}
	s := newServer(t, &fakes{}, func(o *config) { o.Weather = w })
	one := `{"signal_id":"wsig_01M7YQ1WTVKN9DZNWV9NV456V1","type":"weather_arbitrage","commodity":"natural_gas",` +
		`"region":"us","direction":"long","confidence":0.6124,"initial_confidence":0.4483,` +
		`"weather_event":{"type":"cold_snap","severity":"high","location":"Chicago","forecast_date":"2026-11-24",` +
		`"temperature_deviation":-7.4},` +
		`"expected_impact":"+1.4 % in 5 days","created_at":"2026-11-21T09:30:00.000Z"}`
	a := do(t, s, "GET",
		"/v1/signals/weather?region=us&commodity=natural_gas&severity=high&limit=2&offset=1&since=2026-11-21", "")
	if want := `{"signals":[` + one + `,` + one + `],"total":7}`; a.Body != want {
		t.Errorf("got %s\nwant %s", a.Body, want)
	}
	wantQuery := catalogue.WeatherQuery{Account: accountID, Region: "us", Commodity: "natural_gas", Severity: "high",
		Since: morning.Truncate(24 * time.Hour), Limit: 2, Offset: 1}
	if d := cmp.Diff(wantQuery, w.asked); d != "" {
		t.Errorf("query (-want +got):\n%s", d)
	}
	if a := do(t, s, "GET", "/v1/signals/weather/"+string(weatherSignal.ID), ""); a.Body != one {
		t.Errorf("one: %s", a.Body)
	}
	if a := do(t, s, "GET", "/v1/signals/weather/wsig_1", ""); a.Status != 404 {
		t.Errorf("none: %d", a.Status)
	}
}

func TestAgentsAreListedAndFiltered(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	tests := []struct{ query, want string }{
		{"", "trading weather seo 3"},
		{"?category=weather", "weather 1"},
		{"?status=active", "trading weather 2"},
		{"?status=deprecated", "0"},
		{"?limit=1&offset=1", "weather 3"},
		{"?offset=7", "3"},
	}
	for _, test := range tests {
		var list struct {
			Agents []struct{ ID string }
			Total  json.Number
		}
		if err := json.Unmarshal([]byte(do(t, s, "GET", "/v1/agents"+test.query, "").Body), &list); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, a := range list.Agents {
			got += a.ID + " "
		}
		if got += list.Total.String(); got != test.want {
			t.Errorf("%s: got %s, want %s", test.query, got, test.want)
		}
	}
	if a := do(t, s, "GET", "/v1/agents/seo", ""); a.Status != 200 ||
		!strings.HasPrefix(a.Body, `{"id":"seo","name":"SEO Content Agent","category":"content",`) {
		t.Errorf("one: %d %s", a.Status, a.Body)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	a := do(t, s, "GET", "/v1/versions", "", "X-Service-Version: 2026-11-01")
	if want := `{"versions":[{"version":"2026-11-01","status":"current","sunset_at":null}],` +
		`"default":"2026-11-01"}`; a.Body != want {
		t.Errorf("got %s", a.Body)
	}
	if a.Header.Get("X-Service-Version") != "2026-11-01" || a.Header.Get("Deprecation") != "" {
		t.Errorf("headers %v", a.Header)
	}
}

func TestErrorsOfOtherPackages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		err    error
		status int
		code   string
		retry  string
	}{
		{"not found", signal.NotFound("agent"), 404, "not_found", ""},
		{"too many runs", &signal.Error{Kind: signal.KindTooMany, Code: "too_many_runs", Message: "m",
			RetryAfter: time.Second}, 429, "too_many_runs", "1"},
		{"unavailable", signal.Unavailable(errors.New("dial tcp: secret host")), 503, "unavailable", "5"},
		{"unavailable without a time", &signal.Error{Kind: signal.KindUnavailable, Code: "whatever", Message: "m"}, 503,
			"unavailable", "5"},
		{"deadline", context.DeadlineExceeded, 503, "unavailable", "5"},
		{"in progress", &signal.Error{Kind: signal.KindConflict, Code: "idempotency_in_progress", Message: "m"}, 409,
			"idempotency_in_progress", ""},
		{"mismatch", &signal.Error{Kind: signal.KindMismatch, Message: "m"}, 422, "idempotency_key_reused", ""},
		{"invalid", &signal.Error{Kind: signal.KindInvalid, Message: "m"}, 400, "invalid_request", ""},
		{"unknown conflict", &signal.Error{Kind: signal.KindConflict, Code: "unlisted", Message: "secret"}, 500,
			"internal", ""},
		{"internal", &signal.Error{Kind: signal.KindInternal, Code: "internal", Message: "secret"}, 500,
			"internal", ""},
		{"foreign", errors.New("secret"), 500, "internal", ""},
	}
	for _, test := range tests {
		f := &fakes{run: func(context.Context, signal.RunRequest) (agent.Outcome, error) {
			return agent.Outcome{}, test.err
		}}
		a := do(t, newServer(t, f), "POST", "/v1/agents/trading/run", `{"asset":"BTC","strategy":"momentum"}`)
		if p := a.problem(t); a.Status != test.status || p.Code != test.code ||
			a.Header.Get("Retry-After") != test.retry {
			t.Errorf("%s: got %d %s, Retry-After %q", test.name, a.Status, a.Body, a.Header.Get("Retry-After"))
		}
		if strings.Contains(a.Body, "secret") {
			t.Errorf("%s: internals are disclosed: %s", test.name, a.Body)
		}
	}
}

func TestConflictsAndRefusalsOfCredentials(t *testing.T) {
	t.Parallel()
	conflict := func(code string) error { return &signal.Error{Kind: signal.KindConflict, Code: code, Message: "m"} }
	refusal := func(code string) error { return &signal.Error{Kind: signal.KindUnauthorized, Code: code, Message: "m"} }
	locked := &signal.Error{Kind: signal.KindTooMany, Code: "account_locked", Message: "m",
		RetryAfter: 15 * time.Minute}
	var err error
	f := &fakes{
		login:    func(string, string) (credentials.Tokens, error) { return credentials.Tokens{}, err },
		refresh:  func(string) (credentials.Tokens, error) { return credentials.Tokens{}, err },
		register: func(string, string) (credential.Account, error) { return credential.Account{}, err },
		key: func(signal.AccountID, string, []string, *int64) (credential.APIKey, string, error) {
			return credential.APIKey{}, "", err
		},
		revoke: func(signal.AccountID, signal.KeyID) error { return err },
	}
	s := newServer(t, f)
	tests := []struct {
		err                error
		method, path, body string
		status             int
		code               string
	}{
		{refusal("invalid_credentials"), "POST", "/v1/auth/login", `{"email":"a","password":"b"}`, 401,
			"invalid_credentials"},
		{locked, "POST", "/v1/auth/login", `{"email":"a","password":"b"}`, 429, "account_locked"},
		{refusal("invalid_refresh_token"), "POST", "/v1/auth/refresh", `{"refresh_token":"b"}`, 401,
			"invalid_refresh_token"},
		{conflict("email_taken"), "POST", "/v1/auth/register", `{"email":"a@b.c","password":"correct horse"}`, 409,
			"email_taken"},
		{conflict("name_taken"), "POST", "/v1/auth/api-key", `{"name":"a"}`, 409, "name_taken"},
		{conflict("limit_reached"), "POST", "/v1/auth/api-key", `{"name":"a"}`, 409, "limit_reached"},
		{signal.NotFound("key"), "DELETE", "/v1/auth/api-keys/" + string(keyID), "", 404, "not_found"},
		{credentials.ValidationError{{Field: "password", Code: "invalid_value", Detail: "is too common"}}, "POST",
			"/v1/auth/register", `{"email":"a@b.c","password":"password1234"}`, 400, "invalid_request"},
	}
	for _, test := range tests {
		err = test.err
		a := do(t, s, test.method, test.path, test.body, "Authorization: Bearer jwt")
		if p := a.problem(t); a.Status != test.status || p.Code != test.code {
			t.Errorf("%s %s: got %d %s", test.path, test.code, a.Status, a.Body)
		}
		if a.Status == http.StatusTooManyRequests && a.Header.Get("Retry-After") != "900" {
			t.Errorf("%s: Retry-After %q", test.code, a.Header.Get("Retry-After"))
		}
		if test.status == 400 {
			if d := cmp.Diff([]string{"body /password invalid_value"}, a.faults(t)); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
		}
	}
}
