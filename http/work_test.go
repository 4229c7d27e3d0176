package http_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
)

// workFakes are the packages behind scans, backtests and the scorecard.
type workFakes struct {
	scan     func(req signal.RunRequest, assets []string) (signal.Job, error)
	backtest func(req signal.RunRequest, from, to time.Time) (signal.Job, error)
	card     func(q scorecard.Query) (scorecard.Card, error)
	audit    func(account signal.AccountID) (audit.Result, error)
	summary  func(account signal.AccountID, since time.Time) (scorecard.Summary, error)
}

type fakeWork struct{ *workFakes }

func (f fakeWork) SubmitScan(ctx context.Context, req signal.RunRequest, assets []string) (signal.Job, error) {
	if ctx.Err() != nil {
		return signal.Job{}, signal.Unavailable(ctx.Err())
	}
	if f.scan == nil {
		return newScan(), nil
	}
	return f.scan(req, assets)
}

func (f fakeWork) SubmitBacktest(ctx context.Context, req signal.RunRequest, from, to time.Time) (signal.Job, error) {
	if ctx.Err() != nil {
		return signal.Job{}, signal.Unavailable(ctx.Err())
	}
	if f.backtest == nil {
		return newBacktest(), nil
	}
	return f.backtest(req, from, to)
}

func (f fakeWork) Card(_ context.Context, q scorecard.Query) (scorecard.Card, error) {
	return call1(f.card, scorecard.Card{Statistics: backtest.Summarize(nil), Strategies: []scorecard.Strategy{},
		Groups: []scorecard.Group{}}, q)
}

func (f fakeWork) Audit(_ context.Context, account signal.AccountID) (audit.Result, error) {
	if f.audit == nil {
		return audit.Result{}, signal.NotFound("audit")
	}
	return f.audit(account)
}

func (f fakeWork) Summary(_ context.Context, account signal.AccountID, _ *signal.View,
	since time.Time) (scorecard.Summary, error) {
	return call2(f.summary, scorecard.Summary{}, account, since)
}

func newScan() signal.Job {
	j := newJob()
	j.Kind, j.Assets, j.Request.Asset = signal.JobScan, []string{"BTC", `a "b"`}, ""
	return j
}

func newBacktest() signal.Job {
	j := newJob()
	j.Kind, j.From = signal.JobBacktest, morning.Add(-time.Hour)
	return j
}

func TestScansAreQueued(t *testing.T) {
	t.Parallel()
	var class limits.Class
	f := &fakes{take: func(c limits.Class, _ string) limits.Decision {
		class = c
		return limits.Decision{Class: c, Allowed: true, Limit: 600, Window: time.Minute, Remaining: 599}
	}}
	f.scan = func(req signal.RunRequest, assets []string) (signal.Job, error) {
		want := signal.RunRequest{Account: accountID, Agent: "trading", Strategy: "breakout", Timeframe: signal.M5,
			Risk: signal.HighRisk}
		if d := cmp.Diff(want, req); d != "" || !cmp.Equal(assets, []string{"BTC", "eth"}) {
			t.Errorf("scan of %q by (-want +got):\n%s", assets, d)
		}
		return newScan(), nil
	}
	s := newServer(t, f)
	a := do(t, s, "POST", "/v1/agents/trading/scan",
		`{"assets":["BTC"," eth "],"strategy":"breakout","timeframe":"5m","risk_level":"high"}`)
	want := `{"job_id":"job_01M7YQ1WJ9KX5V8WQ8KXDH917J","run_id":"run_01M7YQ1WPJA84WKP9M7T9BM2EX","kind":"scan",` +
		`"agent_id":"trading","assets":["BTC","a \"b\""],` +
		`"strategy":"momentum","timeframe":"1h","risk_level":"medium","status":"queued",` +
		`"created_at":"2026-11-21T09:30:00.000Z",` +
		`"started_at":null,"completed_at":null,"expires_at":null,"result":null,"error":null}`
	if a.Status != 200 || a.Body != want || class != limits.Writes {
		t.Errorf("class %s, got %d %s\nwant %s", class, a.Status, a.Body, want)
	}
	if a.Header.Get("Location") != "/v1/jobs/"+string(jobID) || a.Header.Get("Retry-After") != "1" {
		t.Errorf("headers %v", a.Header)
	}
}

func TestBacktestsAreQueued(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.backtest = func(req signal.RunRequest, from, to time.Time) (signal.Job, error) {
		want := signal.RunRequest{Account: accountID, Agent: "trading", Asset: "BTC", Strategy: "momentum",
			Timeframe: signal.H1, Risk: signal.MediumRisk}
		if d := cmp.Diff(want, req); d != "" || !from.Equal(morning.Add(-150*time.Minute)) ||
			!to.Equal(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("backtest from %s to %s of (-want +got):\n%s", from, to, d)
		}
		return newBacktest(), nil
	}
	s := newServer(t, f)
	a := do(t, s, "POST", "/v1/backtests",
		`{"agent_id":"trading","asset":" BTC","strategy":"momentum","from":"2026-11-21T08:00:00+01:00",`+
			`"to":"2026-11-22"}`)
	want := `{"job_id":"job_01M7YQ1WJ9KX5V8WQ8KXDH917J","run_id":"run_01M7YQ1WPJA84WKP9M7T9BM2EX","kind":"backtest",` +
		`"agent_id":"trading","asset":"BTC",` +
		`"strategy":"momentum","timeframe":"1h","risk_level":"medium","from":"2026-11-21T08:30:00.000Z","to":null,` +
		`"status":"queued",` +
		`"created_at":"2026-11-21T09:30:00.000Z","started_at":null,"completed_at":null,"expires_at":null,` +
		`"result":null,` +
		`"error":null}`
	if a.Status != 200 || a.Body != want {
		t.Errorf("got %d %s\nwant %s", a.Status, a.Body, want)
	}
	f.backtest = func(signal.RunRequest, time.Time, time.Time) (signal.Job, error) {
		return signal.Job{}, &signal.Error{Kind: signal.KindTooMany, Code: "too_many_runs", Message: "full",
			RetryAfter: time.Second}
	}
	if a := do(t, s, "POST", "/v1/backtests",
		`{"agent_id":"trading","asset":"BTC","strategy":"momentum"}`); a.Status != http.StatusTooManyRequests ||
		a.problem(t).Code != "too_many_runs" {
		t.Errorf("a full queue: %d %s", a.Status, a.Body)
	}
}

func TestWorkThatIsNotValidIsRefused(t *testing.T) {
	t.Parallel()
	many := strings.TrimSuffix(strings.Repeat(`"x",`, 51), ",")
	for name, c := range map[string]struct {
		path, body string
		want       []string
	}{
		"nothing": {"/v1/agents/trading/scan", `{}`, []string{"body /assets required", "body /strategy required"}},
		"no assets": {"/v1/agents/trading/scan", `{"assets":[],"strategy":"momentum"}`,
			[]string{"body /assets too_short"}},
		"too many assets": {"/v1/agents/trading/scan", `{"assets":[` + many + `],"strategy":"momentum"}`,
			[]string{"body /assets/1 duplicate", "body /assets too_long"}},
		"odd assets": {"/v1/agents/trading/scan", `{"assets":["BTC"," ",7,"btc"],"strategy":"luck","asset":"x"}`,
			[]string{"body /assets/1 too_short", "body /assets/2 invalid_type", "body /assets/3 duplicate",
				"body /asset unknown_field", "body /strategy invalid_value"}},
		"no commodity": {"/v1/agents/weather/scan", `{"assets":["corn","BTC"],"strategy":"agriculture"}`,
			[]string{"body /assets/1 invalid_value"}},
		"unknown agent": {"/v1/agents/nosuch/scan", `{"assets":["BTC"],"strategy":"luck"}`,
			[]string{"body /strategy invalid_value"}},
		"nothing to replay": {"/v1/backtests", `{}`,
			[]string{"body /agent_id required", "body /asset required", "body /strategy required"}},
		"no trading": {"/v1/backtests", `{"agent_id":"weather","asset":"corn","strategy":"agriculture"}`,
			[]string{"body /agent_id invalid_value"}},
		"no agent": {"/v1/backtests", `{"agent_id":"nosuch","asset":"corn","strategy":"momentum"}`,
			[]string{"body /agent_id invalid_value"}},
		"odd values": {"/v1/backtests",
			`{"agent_id":"trading","asset":"","strategy":"","timeframe":"2h","risk_level":1,"from":"soon","x":1}`,
			[]string{"body /asset too_short", "body /timeframe invalid_value", "body /risk_level invalid_type",
				"body /from invalid_format", "body /x unknown_field", "body /strategy invalid_value"}},
		"an end too early": {"/v1/backtests",
			`{"agent_id":"trading","asset":"BTC","strategy":"momentum","from":"2026-11-21","to":"2026-11-20"}`,
			[]string{"body /to out_of_range"}},
		"another's strategy": {"/v1/backtests", `{"agent_id":"trading","asset":"BTC","strategy":"agriculture"}`,
			[]string{"body /strategy invalid_value"}},
	} {
		a := do(t, newServer(t, &fakes{}), "POST", c.path, c.body)
		if a.Status != 400 {
			t.Errorf("%s: got %d %s", name, a.Status, a.Body)
			continue
		}
		if name == "too many assets" {
			if got := a.faults(t); got[len(got)-1] != "body /assets too_long" {
				t.Errorf("%s: faults %v", name, got)
			}
			continue
		}
		if d := cmp.Diff(c.want, a.faults(t)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if a := do(t, newServer(t, &fakes{}), "POST", "/v1/agents/nosuch/scan",
		`{"assets":["BTC"],"strategy":"momentum"}`); a.Status != 404 {
		t.Errorf("unknown agent: %d", a.Status)
	}
}

func TestScorecardNeedsAToken(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	if a := do(t, s, "GET", "/v1/scorecard", "", "Authorization: Bearer reader"); a.Status != 200 {
		t.Errorf("scorecard: %d %s", a.Status, a.Body)
	}
	if a := do(t, s, "GET", "/v1/scorecard", "", "Authorization: Bearer nobody"); a.Status != 401 {
		t.Errorf("scorecard: %d %s", a.Status, a.Body)
	}
}

func TestResultsOfWorkAreShown(t *testing.T) {
	t.Parallel()
	outcomes := []backtest.Outcome{{At: morning.UnixMilli(), R: 1.5, Cost: .1, Confidence: .4, Minutes: 7, MFE: 1.5,
		Reason: signal.TakeProfit},
		{At: morning.UnixMilli() + 1, R: -1, Cost: .1, Confidence: .5, Minutes: 8, MAE: -1, Reason: signal.StopLoss}}
	result, err := json.Marshal(backtest.Result{Statistics: backtest.Summarize(outcomes),
		Equity: []backtest.Point{{At: morning.UnixMilli(), R: 1.4}}})
	if err != nil {
		t.Fatal(err)
	}
	replayed, scanned, failed := newBacktest(), newScan(), newScan()
	for _, j := range []*signal.Job{&replayed, &scanned, &failed} {
		j.Status, j.StartedAt, j.CompletedAt, j.ExpiresAt = signal.JobCompleted, morning, morning, morning
	}
	replayed.Result = result
	scanned.Result = json.RawMessage(`{"ranked":[{"asset":"BTC","direction":"long","confidence":0.42,` +
		`"expected_r_net":0.02,"edge":0.01,"strength":0.9,"entry_price":1,"stop_loss":0.5,"take_profit":2},` +
		`{"asset":"x","direction":"long","confidence":0.42,` +
		`"expected_r_net":null,"edge":null,"strength":null,"entry_price":null,"stop_loss":null,"take_profit":null}],` +
		`"errors":[{"asset":"y","error_code":"STALE_DATA"}]}`)
	failed.Status, failed.Error = signal.JobFailed,
		&signal.RunError{Code: signal.Timeout, Message: "slow", Retryable: true}
	f := &fakes{jobs: func(signal.AccountID, signal.JobStatus, int, int) ([]signal.Job, int, error) {
		return []signal.Job{replayed, scanned, failed, newJob()}, 4, nil
	}}
	s := newServer(t, f)
	if a := do(t, s, "GET", "/v1/jobs", ""); a.Status != 200 || !strings.Contains(a.Body, string(result)) ||
		!strings.Contains(a.Body, `"result":null,"error":{"error_code":"TIMEOUT"`) {
		t.Errorf("jobs: %d %s", a.Status, a.Body)
	}
	for _, j := range []signal.Job{replayed, scanned, failed} {
		f.job = func(signal.AccountID, signal.JobID) (signal.Job, error) { return j, nil }
		if a := do(t, s, "GET", "/v1/jobs/"+string(jobID), ""); a.Status != 200 ||
			!strings.Contains(a.Body, `"kind":"`+string(j.Kind)) || strings.Contains(a.Body, `"signal":`) {
			t.Errorf("job: %d %s", a.Status, a.Body)
		}
	}
}

func TestScorecardPassesEveryFilterOn(t *testing.T) {
	t.Parallel()
	outcomes := []backtest.Outcome{{At: 1, R: 1.5, Confidence: .4, Reason: signal.TakeProfit},
		{At: 2, R: -1, Confidence: .5, Reason: signal.StopLoss}}
	f := &fakes{}
	f.card = func(q scorecard.Query) (scorecard.Card, error) {
		want := scorecard.Query{Account: accountID, Agent: "trading", Strategy: "momentum", Asset: "btc",
			Timeframe: signal.H1, Since: morning}
		if d := cmp.Diff(want, q); d != "" {
			t.Errorf("query (-want +got):\n%s", d)
		}
		s := backtest.Summarize(outcomes)
		var own scorecard.StrategyTally
		own.Add(&outcomes[0], nil)
		row := own.Strategy()
		row.Agent, row.Strategy = "my_agent", "cross"
		return scorecard.Card{Statistics: s, Strategies: []scorecard.Strategy{row},
			Groups: []scorecard.Group{{Agent: "trading", Strategy: "momentum", Asset: "BTC", Timeframe: signal.H1,
				Risk: signal.LowRisk, Statistics: s}}}, nil
	}
	s := newServer(t, f)
	a := do(t, s, "GET",
		"/v1/scorecard?agent_id=trading&strategy=momentum&asset=btc&timeframe=1h&since=2026-11-21T09:30:00Z", "")
	var got struct {
		Statistics struct {
			Count    int
			Interval struct{ Low, High float64 } `json:"hit_rate_interval"`
		}
		Groups []struct {
			Risk string `json:"risk_level"`
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &got); err != nil || a.Status != 200 || got.Statistics.Count != 2 ||
		len(got.Groups) != 1 || got.Groups[0].Risk != "low" ||
		!strings.Contains(a.Body, `"strategies":[{"agent_id":"my_agent",`) {
		t.Errorf("got %d %s (%v)", a.Status, a.Body, err)
	}
	f.card = nil
	for _, bad := range []string{"agent_id=nobody", "strategy=luck", "timeframe=2h", "since=soon", "asset=" +
		strings.Repeat("x", 65), "since=2026-11-21&since=2026-11-22"} {
		if a := do(t, s, "GET", "/v1/scorecard?"+bad, ""); a.Status != 400 {
			t.Errorf("%s: %s", bad, strconv.Itoa(a.Status))
		}
	}
}

func TestTheLastAudit(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	s := newServer(t, f)
	if a := do(t, s, "GET", "/v1/audit", ""); a.Status != 404 {
		t.Errorf("before the first one: %d %s", a.Status, a.Body)
	}
	f.audit = func(account signal.AccountID) (audit.Result, error) {
		if account != accountID {
			t.Errorf("of %s", account)
		}
		none := map[string]int{}
		return audit.Result{
			At:            "2026-11-21T09:30:00.000Z",
			NotRecomputed: none,
			NotCompared:   none,
			Published:     audit.Published{NotCompared: none},
			Live:          audit.Live{Explained: none, NotReplayed: none},
			Shifts:        []audit.Shift{},
			Total:         1,
			Differences:   []audit.Item{{Member: "record"}},
		}, nil
	}
	a := do(t, s, "GET", "/v1/audit", "")
	if a.Status != 200 || !strings.Contains(a.Body, `"differences":[{"signal_id":null,"member":"record"`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
