package http_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
)

const (
	scheduleID = signal.ScheduleID("sch_01M7YQ1WTVKN9DZNWV9NV456V1")
	aSchedule  = "/v1/schedules/" + string(scheduleID)
)

// scheduleRecord is newSchedule in answers.
const scheduleRecord = `{"schedule_id":"sch_01M7YQ1WTVKN9DZNWV9NV456V1","agent_id":"trading","assets":["BTC","eth"],` +
	`"strategy":"momentum","timeframe":"5m",` +
	`"risk_level":"medium","every":"bar","max_open":2,"status":"enabled","next_run_at":"2026-11-21T09:35:02.000Z",` +
	`"last_run_at":null,"last_error":null,"failures":0,"skipped":0,` +
	`"created_at":"2026-11-21T09:30:00.000Z","updated_at":"2026-11-21T09:30:00.000Z"}`

// scheduleFakes is the package behind schedules. A nil function has a plain answer.
type scheduleFakes struct {
	addSchedule    func(s signal.Schedule, limit int) (signal.Schedule, error)
	schedule       func(account signal.AccountID, id signal.ScheduleID) (signal.Schedule, error)
	schedules      func(account signal.AccountID) ([]signal.Schedule, error)
	changeSchedule func(s signal.Schedule, replan bool) (signal.Schedule, error)
	removeSchedule func(account signal.AccountID, id signal.ScheduleID) error
}

type fakeSchedules struct{ *scheduleFakes }

func newSchedule() signal.Schedule {
	return signal.Schedule{ID: scheduleID, Account: accountID, Agent: "trading", Assets: []string{"BTC", "eth"},
		Strategy: "momentum", Timeframe: signal.M5, Risk: signal.MediumRisk, MaxOpen: 2, Status: signal.ScheduleEnabled,
		NextRunAt: morning.Add(5*time.Minute + 2*time.Second), CreatedAt: morning, UpdatedAt: morning, Revision: "1"}
}

func (f fakeSchedules) AddSchedule(_ context.Context, s signal.Schedule, limit int) (signal.Schedule, error) {
	return call2(f.addSchedule, s, s, limit)
}

func (f fakeSchedules) Schedule(_ context.Context, account signal.AccountID,
	id signal.ScheduleID) (signal.Schedule, error) {
	return call2(f.schedule, newSchedule(), account, id)
}

func (f fakeSchedules) Schedules(_ context.Context, account signal.AccountID) ([]signal.Schedule, error) {
	return call1(f.schedules, []signal.Schedule{newSchedule()}, account)
}

func (f fakeSchedules) ChangeSchedule(_ context.Context, s signal.Schedule, replan bool) (signal.Schedule, error) {
	return call2(f.changeSchedule, s, s, replan)
}

func (f fakeSchedules) RemoveSchedule(_ context.Context, account signal.AccountID, id signal.ScheduleID) error {
	return fail2(f.removeSchedule, account, id)
}

func TestSchedulesAreCreated(t *testing.T) {
	t.Parallel()
	var got signal.Schedule
	var class limits.Class
	f := &fakes{take: func(c limits.Class, _ string) limits.Decision {
		class = c
		return limits.Decision{Class: c, Allowed: true, Limit: 300, Window: time.Minute, Remaining: 299}
	}}
	f.addSchedule = func(s signal.Schedule, limit int) (signal.Schedule, error) {
		if got = s; limit != 100 {
			t.Errorf("limit %d", limit)
		}
		return s, nil
	}
	s := newServer(t, f, func(o *config) { o.Speed = func(context.Context, string) int64 { return 60 } })
	a := do(t, s, "POST", "/v1/schedules",
		`{"agent_id":"trading","assets":[" BTC ","eth"],"strategy":"breakout","timeframe":"5m","risk_level":"high",`+
			`"every":"1440m","max_open":100}`)
	want := signal.Schedule{ID: got.ID, Account: accountID, Agent: "trading", Assets: []string{"BTC", "eth"},
		Strategy: "breakout", Timeframe: signal.M5, Risk: signal.HighRisk,
		Every: 24 * time.Hour, MaxOpen: 100, Status: signal.ScheduleEnabled, NextRunAt: morning, CreatedAt: morning,
		UpdatedAt: morning}
	if d := cmp.Diff(want, got); d != "" || a.Status != 200 || class != limits.Writes {
		t.Errorf("%d %s, class %s (-want +got):\n%s", a.Status, a.Body, class, d)
	}
	if _, ok := signal.ParseScheduleID(string(got.ID)); !ok {
		t.Errorf("identifier %s", got.ID)
	}
	a = do(t, s, "POST", "/v1/schedules",
		`{"agent_id":"seo","assets":["standing desk"],"strategy":"meta_tags","every":"bar","timeframe":null,`+
			`"max_open":null}`)
	want = signal.Schedule{ID: got.ID, Account: accountID, Agent: "seo", Assets: []string{"standing desk"},
		Strategy: "meta_tags", Timeframe: signal.H1, Risk: signal.MediumRisk,
		MaxOpen: 1, Status: signal.ScheduleEnabled, NextRunAt: morning.Add(2 * time.Second), CreatedAt: morning,
		UpdatedAt: morning}
	if d := cmp.Diff(want, got); d != "" || a.Status != 200 || !strings.Contains(a.Body,
		`"every":"bar","max_open":1,"status":"enabled","next_run_at":"2026-11-21T09:30:02.000Z"`) {
		t.Errorf("%d %s (-want +got):\n%s", a.Status, a.Body, d)
	}
}

func TestFaultsOfSchedules(t *testing.T) {
	t.Parallel()
	many := `"A` + strings.Join(slices.Collect(func(yield func(string) bool) {
		for i := range 51 {
			yield(fmt.Sprint(i))
		}
	}), `","A`) + `"`
	const well = `"agent_id":"trading","assets":["BTC"],"strategy":"momentum","every":"5m"`
	for _, test := range []struct {
		body string
		want []string // of a new one
	}{
		{`{}`, []string{"/agent_id required", "/assets required", "/strategy required", "/every required"}},
		{`{"agent_id":"none","assets":[],"strategy":"x","every":"5","timeframe":"2m","risk_level":"none","max_open":0}`,
			[]string{"/agent_id invalid_value", "/assets too_short", "/strategy invalid_value",
				"/timeframe invalid_value",
				"/risk_level invalid_value", "/every invalid_value", "/max_open out_of_range"}},
		{`{"agent_id":"weather","assets":["corn","BTC","oil"],"strategy":"agriculture","every":"bar"}`,
			[]string{"/assets/1 invalid_value", "/assets/2 invalid_value"}},
		{`{"agent_id":"weather","assets":["corn","wheat"],"strategy":"momentum","every":"bar"}`,
			[]string{"/strategy invalid_value"}},
		{`{"agent_id":"trading","assets":["a","A",7,""],"strategy":"blog_post","every":"bar"}`,
			[]string{"/assets/1 duplicate", "/assets/2 invalid_type", "/assets/3 too_short",
				"/strategy invalid_value"}},
		{`{` + well + `,"status":"disabled","next_run_at":null}`,
			[]string{"/status unknown_field", "/next_run_at unknown_field"}},
		{`{` + strings.Replace(well, `"BTC"`, many, 1) + `}`, []string{"/assets too_long"}},
		{`{` + strings.Replace(well, "5m", "1441m", 1) + `}`, []string{"/every invalid_value"}},
		{`{` + strings.Replace(well, "5m", "05m", 1) + `}`, []string{"/every invalid_value"}},
		{`{` + strings.Replace(well, "5m", "m", 1) + `}`, []string{"/every invalid_value"}},
		{`{` + strings.Replace(well, "5m", "+5m", 1) + `}`, []string{"/every invalid_value"}},
		{`{` + strings.Replace(well, `"5m"`, "5", 1) + `}`, []string{"/every invalid_type"}},
		{`{` + well + `,"max_open":101}`, []string{"/max_open out_of_range"}},
	} {
		a := do(t, newServer(t, &fakes{}), "POST", "/v1/schedules", test.body)
		var p struct {
			Errors []struct{ Pointer, Code string }
		}
		if err := json.Unmarshal([]byte(a.Body), &p); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range p.Errors {
			got = append(got, e.Pointer+" "+e.Code)
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if d := cmp.Diff(test.want, got); d != "" || a.Status != 400 {
			t.Errorf("%s: %d (-want +got):\n%s", test.body, a.Status, d)
		}
	}
}

func TestTheLimitOfSchedulesIsAConflict(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.addSchedule = func(signal.Schedule, int) (signal.Schedule, error) {
		return signal.Schedule{}, conflict("limit_reached")
	}
	a := do(t, newServer(t, f), "POST", "/v1/schedules",
		`{"agent_id":"trading","assets":["BTC"],"strategy":"momentum","every":"5m"}`)
	if a.Status != 409 || !strings.Contains(a.Body, `"code":"limit_reached"`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestSchedulesAreReadAndListed(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.schedules = func(account signal.AccountID) ([]signal.Schedule, error) {
		disabled := newSchedule()
		disabled.Status, disabled.NextRunAt, disabled.Every = signal.ScheduleDisabled, time.Time{}, 5*time.Minute
		disabled.LastRunAt, disabled.Failures, disabled.Skipped = morning, 2, 3
		disabled.LastError = &signal.ScheduleError{Code: "STALE_DATA", Message: `the price of "eth" is old`,
			At: morning.Add(time.Second)}
		return []signal.Schedule{newSchedule(), disabled}, nil
	}
	s := newServer(t, f)
	if a := do(t, s, "GET", aSchedule, ""); a.Status != 200 || a.Body != scheduleRecord {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	disabled := strings.NewReplacer(`"bar"`, `"5m"`, `"enabled"`, `"disabled"`, `"2026-11-21T09:35:02.000Z"`, `null`,
		`"last_run_at":null,"last_error":null,"failures":0,"skipped":0`,
		`"last_run_at":"2026-11-21T09:30:00.000Z","last_error":{"error_code":"STALE_DATA",`+
			`"message":"the price of \"eth\" is old","at":"2026-11-21T09:30:01.000Z"},`+
			`"failures":2,"skipped":3`).Replace(scheduleRecord)
	for query, want := range map[string]string{
		"":                  scheduleRecord + `,` + disabled + `],"total":2,"limit":25,"offset":0,"has_more":false}`,
		"?status=disabled":  disabled + `],"total":1,"limit":25,"offset":0,"has_more":false}`,
		"?limit=1":          scheduleRecord + `],"total":2,"limit":1,"offset":0,"has_more":true}`,
		"?offset=5&status=": `],"total":2,"limit":25,"offset":5,"has_more":false}`,
	} {
		if a := do(t, s, "GET", "/v1/schedules"+query, ""); a.Status != 200 || a.Body != `{"schedules":[`+want {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	if a := do(t, s, "GET", "/v1/schedules?status=x&limit=0", ""); a.Status != 400 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestOtherSchedulesAreNotFound(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.schedule = func(signal.AccountID, signal.ScheduleID) (signal.Schedule, error) {
		return signal.Schedule{}, signal.NotFound("schedule")
	}
	f.removeSchedule = func(signal.AccountID, signal.ScheduleID) error { return signal.NotFound("schedule") }
	s := newServer(t, f)
	for _, path := range []string{aSchedule, "/v1/schedules/sch_1", "/v1/schedules/" + string(webhookID)} {
		for method, body := range map[string]string{"GET": "", "PATCH": `{"max_open":1}`, "DELETE": ""} {
			if a := do(t, s, method, path, body); a.Status != 404 {
				t.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
			}
		}
	}
}

func TestSchedulesAreChanged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body           string
		want           string // the changes of the answer, "OLD NEW" …
		stored, replan bool
	}{
		{`{}`, ``, false, false},
		{`{"max_open":2,"status":"enabled","every":"bar","assets":null}`, ``, false, false},
		{`{"max_open":7}`, `"max_open":2 "max_open":7`, true, false},
		{`{"assets":["SOL"],"risk_level":"low"}`, `["BTC","eth"] ["SOL"] "medium" "low" 09:35:02 09:30:02`, true, true},
		{`{"agent_id":"seo","strategy":"blog_post"}`, `"trading" "seo" "momentum" "blog_post"`, true, false},
		{`{"timeframe":"1h"}`, `"5m" "1h" 09:35:02 10:00:02`, true, true},
		{`{"every":"7m"}`, `"bar" "7m" 09:35:02 09:30:00`, true, true},
		{`{"status":"disabled"}`, `"enabled" "disabled" "2026-11-21T09:35:02.000Z" null`, true, true},
	} {
		stored, replanned := false, false
		f := &fakes{}
		f.changeSchedule = func(s signal.Schedule, replan bool) (signal.Schedule, error) {
			stored, replanned = true, replan
			if s.Revision != "1" || s.Account != accountID {
				t.Errorf("stored %+v", s)
			}
			return s, nil
		}
		a := do(t, newServer(t, f), "PATCH", aSchedule, test.body)
		if want := strings.NewReplacer(strings.Fields(test.want)...).Replace(scheduleRecord); a.Status != 200 ||
			a.Body != want || stored != test.stored || replanned != test.replan {
			t.Errorf("%s: %d %s, stored %t, replan %t\nwant %s", test.body, a.Status, a.Body, stored, replanned, want)
		}
	}
	// It must be valid together with the members that do not change.
	for _, body := range []string{`{"strategy":"blog_post"}`, `{"agent_id":"weather"}`,
		`{"agent_id":"weather","strategy":"agriculture"}`, `{"every":"0m"}`, `{"assets":[]}`} {
		f := &fakes{}
		f.changeSchedule = func(s signal.Schedule, _ bool) (signal.Schedule, error) {
			t.Errorf("%s is stored", body)
			return s, nil
		}
		if a := do(t, newServer(t, f), "PATCH", aSchedule, body); a.Status != 400 {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
}

func TestAChangeOfAScheduleIsRetried(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	tries := 0
	f.changeSchedule = func(s signal.Schedule, _ bool) (signal.Schedule, error) {
		if tries++; tries < 3 {
			return signal.Schedule{}, conflict("schedule_changed")
		}
		return s, nil
	}
	s := newServer(t, f)
	if a := do(t, s, "PATCH", aSchedule, `{"max_open":7}`); a.Status != 200 || tries != 3 {
		t.Errorf("%d %s after %d tries", a.Status, a.Body, tries)
	}
	tries = -100
	if a := do(t, s, "PATCH", aSchedule, `{"max_open":7}`); a.Status != 503 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestSchedulesAreRemoved(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	var removed signal.ScheduleID
	f.removeSchedule = func(account signal.AccountID, id signal.ScheduleID) error {
		if removed = id; account != accountID {
			t.Errorf("account %s", account)
		}
		return nil
	}
	if a := do(t, newServer(t, f), "DELETE", aSchedule, ""); a.Status != 204 || removed != scheduleID {
		t.Errorf("%d %s, removed %s", a.Status, a.Body, removed)
	}
}
