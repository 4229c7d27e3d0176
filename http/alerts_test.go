package http_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
)

// Append implements signalhttp.AlertLog.
func (f fakeRecords) Append(_ context.Context, c signal.Change) (signal.Position, error) {
	if f.append == nil {
		return signal.Position{}, nil
	}
	return signal.Position{}, f.append(c)
}

// A right token counts by its intake and by the runs of the account, and a wrong one by the address alone.
func TestLimitsOfAlerts(t *testing.T) {
	t.Parallel()
	var got []string
	refuse := limits.Class("")
	f := &fakes{take: func(class limits.Class, who string) limits.Decision {
		got = append(got, string(class)+" "+who)
		return limits.Decision{Class: class, Allowed: class != refuse, Limit: 1, Window: time.Minute, RetryAfter: time.Second}
	}}
	s := newServer(t, f)
	send := func(token, body string) answer {
		return do(t, s, "POST", "/v1/intake/"+token, body, "Content-Type:text/plain")
	}
	for _, test := range []struct {
		refuse limits.Class
		token  string
		status int
		want   []string
	}{
		{"", "right", 400, []string{"intakes " + string(intakeID), "runs " + string(accountID)}},
		{limits.Failures, "right", 400, []string{"intakes " + string(intakeID), "runs " + string(accountID)}},
		{limits.Intakes, "right", 429, []string{"intakes " + string(intakeID)}},
		{limits.Runs, "right", 429, []string{"intakes " + string(intakeID), "runs " + string(accountID)}},
		{"", "wrong", 404, []string{"failures 192.0.2.1"}},
		{limits.Failures, "wrong", 429, []string{"failures 192.0.2.1"}},
	} {
		got, refuse = nil, test.refuse
		if a := send(test.token, "no alert at all"); a.Status != test.status {
			t.Errorf("%s: %d %s", test.token, a.Status, a.Body)
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s takes (-want +got):\n%s", test.token, d)
		}
	}
	// Of two alerts over a limit the first is noted.
	if len(f.intakes.notes) != 3 || !strings.Contains(string(f.intakes.notes[2]), "rate_limited") {
		t.Errorf("%d notes: %s", len(f.intakes.notes), f.intakes.notes)
	}
}

// Wherever a path is shown, a token of an intake is not, whatever is wrong with the path.
func TestTokensOfIntakesAreNotShown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newServer(t, &fakes{}, func(c *config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	const token = "ain_S3CRETS3CRETS3CRET"
	for _, path := range []string{"/v1/intake/" + token, "/v1/intake/" + token + "/", "/v1//intake/" + token, "/intake/" + token,
		"/v1/INTAKE/" + token, "/v1/intakes/" + token, "/v1/intake/%61in_S3CRETS3CRETS3CRET", "/v1/intake/x" + token[4:],
		"/v1/agents/mine/intakes/" + token, "/v1/agents/" + token + "/intakes", "/" + token} {
		for _, method := range []string{"POST", "GET", "PUT", "OPTIONS", "HEAD", "DELETE"} {
			a := do(t, s, method, path, "no alert", "Authorization: Bearer jwt")
			if strings.Contains(a.Body, "S3CRET") {
				t.Errorf("%s %s: %s", method, path, a.Body)
			}
		}
	}
	if text := log.String(); strings.Contains(text, "S3CRET") || strings.Count(text, "/v1/intake/{token}") < 6 {
		t.Error(text)
	}
}

func refusal(kind signal.Kind, code string) error {
	return &signal.Error{Kind: kind, Code: code, Message: "the " + code}
}

// An alert that takes longer than a chart program waits is acknowledged once it is stored, and only then.
func TestSlowAlertsAreQueued(t *testing.T) {
	t.Parallel()
	unknown := signal.Unavailable(errors.New("no answer"))
	for name, test := range map[string]struct {
		errs    []error // of the appends
		revoked bool
		status  int
		text    string
		notes   int
	}{
		"stored":               {[]error{nil}, false, 202, `{"signal":null,"reason":"queued"}`, 0},
		"after a change":       {[]error{refusal(signal.KindConflict, "agent_changed"), nil}, false, 202, `"queued"`, 0},
		"after its revocation": {[]error{refusal(signal.KindConflict, "agent_changed")}, true, 404, "not_found", 1},
		"not stored":           {[]error{unknown}, false, 503, "unavailable", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var appended []signal.Change
				claims := make(chan chan struct{}, 1)
				f := &fakes{run: func(ctx context.Context, req signal.RunRequest) (agent.Outcome, error) {
					claims <- req.Alert.Claim
					<-ctx.Done()
					return agent.Outcome{}, ctx.Err()
				}, append: func(c signal.Change) error {
					appended = append(appended, c)
					return test.errs[len(appended)-1]
				}}
				s := newServer(t, f)
				f.intakes.revoked = test.revoked
				start := time.Now()
				a := do(t, s, "POST", "/v1/intake/right", "buy BTC", "Content-Type:text/plain")
				if a.Status != test.status || !strings.Contains(a.Body, test.text) || len(f.intakes.notes) != test.notes {
					t.Errorf("%d %s, %d notes", a.Status, a.Body, len(f.intakes.notes))
				}
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("answered after %s", took)
				}
				if len(appended) != len(test.errs) {
					t.Fatalf("%d appends", len(appended))
				}
				got := appended[0]
				if j := got.Alert.Queued; j == nil || string(j.Alert.Body) != "buy BTC" || j.Alert.Intake != intakeID ||
					!j.CreatedAt.Equal(start) || got.Agent == nil || len(<-claims) != 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// An alert that is being appended is not queued: its append decides, if it ends soon.
func TestAlertsThatAreBeingAppendedAreNotQueued(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		takes  time.Duration
		err    error
		status int
	}{
		"it succeeds":    {time.Second, nil, 200},
		"it is refused":  {1600 * time.Millisecond, refusal(signal.KindConflict, "alert_overtaken"), 202},
		"it is unknown":  {time.Second, signal.Unavailable(errors.New("no answer")), 503},
		"it takes long":  {3 * time.Second, nil, 503},
		"it is too slow": {3 * time.Second, refusal(signal.KindConflict, "alert_overtaken"), 503},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var queued, runs atomic.Int64
				f := &fakes{run: func(ctx context.Context, req signal.RunRequest) (agent.Outcome, error) {
					if runs.Add(1) > 1 {
						<-ctx.Done()
						return agent.Outcome{}, ctx.Err()
					}
					time.Sleep(time.Second) // then it is appended
					<-req.Alert.Claim
					time.Sleep(test.takes - time.Second)
					if test.err != nil && signal.KindOf(test.err) == signal.KindConflict {
						req.Alert.Claim <- struct{}{}
					}
					return agent.Outcome{Run: runID, Signal: newSignal()}, test.err
				}, append: func(c signal.Change) error {
					queued.Add(1)
					return nil
				}}
				start := time.Now()
				a := do(t, newServer(t, f), "POST", "/v1/intake/right", "buy BTC", "Content-Type:text/plain")
				if a.Status != test.status || (queued.Load() == 1) != (test.status == 202) {
					t.Errorf("%d, queued %d times: %s", a.Status, queued.Load(), a.Body)
				}
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("answered after %s", took)
				}
				time.Sleep(time.Minute) // what still runs ends
			})
		})
	}
}

// The marks of the store are read where the node has left none, and before something that no append refuses.
func TestMarksOfAlertsAreRemembered(t *testing.T) {
	t.Parallel()
	var marks [][]signal.AlertTopic // of the runs
	overtaken := false
	f := &fakes{run: func(_ context.Context, r signal.RunRequest) (agent.Outcome, error) {
		if marks = append(marks, r.Alert.Topics); overtaken {
			overtaken = false
			return agent.Outcome{}, refusal(signal.KindConflict, "alert_overtaken")
		}
		return agent.Outcome{Run: runID, Signal: newSignal()}, nil
	}}
	s := newServer(t, f)
	send := func(body string, reads int, want ...string) {
		t.Helper()
		before := f.intakes.reads
		marks = nil
		if a := do(t, s, "POST", "/v1/intake/right", body, "Content-Type:text/plain"); a.Status != 200 {
			t.Fatal(a.Status, a.Body)
		}
		if n := f.intakes.reads - before; n != reads || len(marks) != len(want) {
			t.Fatalf("%s: %d reads of marks, %d runs", body, n, len(marks))
		}
		for i, m := range marks {
			if len(m) != 1 || !strings.HasSuffix(m[0].Mark, want[i]) {
				t.Errorf("%s: run %d by the marks %+v", body, i, m)
			}
		}
	}
	left := " " + string(newSignal().ID)
	f.intakes.marks = []string{"1-0 d 1 other"}
	send("buy BTC note=1", 1, "other")
	send("buy BTC note=2", 0, left)
	send("buy ETH note=3", 1, "other")
	overtaken = true
	send("buy BTC note=4", 1, left, "other")
	send("buy BTC note=4", 1, "other") // it may be another one's by now
	send("flat BTC", 1)                // of all strategies
	send("buy BTC strategy=other", 0, `"]}`)
	f.locate = func(q catalogue.Query, before signal.Location) ([]signal.Location, int, error) {
		if before.ID != "" {
			return make([]signal.Location, 1), q.Limit + 1, nil
		}
		return slices.Repeat([]signal.Location{{ID: newSignal().ID}}, q.Limit), q.Limit + 1, nil
	}
	f.at = func(_ signal.AccountID, at []signal.Location) ([]*signal.Signal, error) {
		return slices.Repeat([]*signal.Signal{newSignal()}, len(at)), nil
	}
	send("sell BTC strategy=other", 1, "other") // ends more than one append does
}

// Alerts about one asset wait for each other no longer than one alone takes.
func TestAlertsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{run: func(ctx context.Context, _ signal.RunRequest) (agent.Outcome, error) {
			<-ctx.Done()
			return agent.Outcome{}, ctx.Err()
		}}
		s := newServer(t, f)
		start, answers := time.Now(), make(chan answer)
		for range 10 {
			go func() { answers <- do(t, s, "POST", "/v1/intake/right", "buy BTC", "Content-Type:text/plain") }()
		}
		for range 10 {
			if a := <-answers; a.Status != 202 || time.Since(start) > 2*time.Second {
				t.Errorf("%d after %s: %s", a.Status, time.Since(start), a.Body)
			}
		}
	})
}

// A queued alert is tried until it succeeds, fails for good or is too old, and ends once.
func TestQueuedAlertsEnd(t *testing.T) {
	t.Parallel()
	passing := &signal.RunError{Code: signal.Cancelled, Message: "stops", Passing: true}
	stale := &signal.RunError{Code: signal.StaleData, Message: "too old"}
	lost := refusal(signal.KindConflict, "job_lost")
	busy := &signal.Error{Kind: signal.KindTooMany, Code: "too_many_runs", Message: "busy"}
	later := strconv.FormatInt(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), 10)
	for name, test := range map[string]struct {
		body, mark string
		age        time.Duration
		runs       []error // their ends; the last again and again
		revoked    bool
		lost       bool
		took       time.Duration
		request    string // what the list gets from the handler; empty: nothing
	}{
		"it succeeds": {body: "buy BTC", runs: []error{nil}},
		"it succeeds later": {body: "buy BTC", runs: []error{passing, busy, refusal(signal.KindConflict, "agent_changed"), nil},
			took: 2 * time.Second},
		"it fails":          {body: "buy BTC", runs: []error{stale}, request: `"error_code":"STALE_DATA"`},
		"it cannot be read": {body: "hello out there", request: "invalid_request"},
		"it is too old":     {body: "buy BTC", age: time.Minute + time.Millisecond, request: "expired_alert"},
		"it becomes too old": {body: "buy BTC", age: 57 * time.Second, runs: []error{busy}, took: 4 * time.Second,
			request: "minute: busy"},
		"a later one was made": {body: `{"asset":"BTC","position":"long"}`, mark: "1-0 d " + later + " x",
			request: "expired_alert"},
		"an action stays": {body: "buy BTC", mark: "1-0 d " + later + " x", runs: []error{nil}},
		"it is revoked":   {body: "buy BTC", revoked: true, request: "none"},
		"another has it":  {body: "buy BTC", runs: []error{lost}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var appended []signal.Change
				runs := 0
				f := &fakes{run: func(_ context.Context, r signal.RunRequest) (agent.Outcome, error) {
					if r.Alert.Job == nil || r.Alert.Job.Attempt != 2 {
						t.Errorf("%+v", r.Alert)
					}
					err := test.runs[min(runs, len(test.runs)-1)]
					runs++
					return agent.Outcome{Run: runID, Signal: newSignal()}, err
				}, append: func(c signal.Change) error {
					appended = append(appended, c)
					return nil
				}}
				newServer(t, f)
				f.intakes.revoked, f.intakes.marks = test.revoked, []string{test.mark}
				start := time.Now()
				err := f.alerts.CarryOut(t.Context(), signal.Job{ID: jobID, Kind: signal.JobAlert, Attempt: 2,
					CreatedAt: start.Add(-test.age), Request: signal.RunRequest{Account: accountID, Agent: "mine"},
					Alert: &signal.QueuedAlert{Intake: intakeID, RequestID: "req_1", Body: []byte(test.body)}})
				if (err != nil) != test.lost || time.Since(start) != test.took {
					t.Errorf("%v after %s", err, time.Since(start))
				}
				if test.request == "" {
					if len(appended) != 0 {
						t.Errorf("%+v", appended)
					}
					return
				}
				if len(appended) != 1 || appended[0].Alert.Job == nil || (appended[0].Agent == nil) != test.revoked {
					t.Fatalf("%+v", appended)
				}
				got := string(appended[0].Alert.Request)
				if test.revoked != (got == "") || !test.revoked && (!strings.Contains(got, test.request) ||
					!strings.Contains(got, `"status":202`) || !strings.Contains(got, `"request_id":"req_1"`)) {
					t.Error(got)
				}
			})
		})
	}
}
