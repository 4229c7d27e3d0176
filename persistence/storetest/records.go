package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/codec"
)

// Account is an account with a fixed identifier, for records that are compared by their bytes.
const Account = signal.AccountID("acc_01M7YQ1WTVKN9DZNWV9NV456V1")

// Milli returns a time in the past that is stored without a loss.
func Milli(ms int64) time.Time { return time.UnixMilli(1_700_000_000_000 + ms).UTC() }

// Signal returns a new signal of account.
func Signal(account signal.AccountID) *signal.Signal {
	created := time.UnixMilli(1795253400000).UTC()
	return &signal.Signal{
		ID: signal.NewSignalID(), Account: account, Agent: "trading", Run: signal.NewRunID(),
		Asset: "BTC", Strategy: "momentum", Timeframe: signal.H1, Risk: signal.MediumRisk,
		Direction: signal.Long, Confidence: .4372,
		Levels:    &signal.Levels{Entry: 64250.125, Stop: 62900.125, Target: 66275.125},
		Metadata:  []byte(`{"indicators":["adx_14"],"reasoning":"because"}`),
		CreatedAt: created, ExpiresAt: created.Add(24 * time.Hour),
	}
}

// Created returns the change that creates s, as a run ends with it.
func Created(s *signal.Signal) signal.Change {
	return signal.Change{Account: s.Account, Signal: s, Events: []signal.Event{
		{Type: signal.SignalCreated, Asset: s.Asset, Data: []byte(`{"signal":1}`)},
		{Type: signal.AgentCompleted, Agent: s.Agent, Run: s.Run, Data: []byte(`{"run":1}`)}}}
}

// Noted returns a change of one event with a text.
func Noted(account signal.AccountID, text string) signal.Change {
	event := signal.Event{Type: signal.SystemNotification, Data: []byte(text)}
	return signal.Change{Account: account, Events: []signal.Event{event}}
}

// FillEvents appends n events of two hours ago to a log. at returns the
// position of the i-th.
func FillEvents(tb testing.TB, rdb redis.UniversalClient, log string, n int) (at func(i int) signal.Position) {
	tb.Helper()
	header := codec.AppendEvent(nil, &signal.Event{Type: signal.SystemNotification, Account: Account})
	old := time.Now().Add(-2 * time.Hour).UnixMilli()
	err := rdb.Eval(tb.Context(), `for i = 0, ARGV[1] - 1 do
		redis.call('XADD', KEYS[1], string.format('%.0f-0', ARGV[2] + i), 'h', ARGV[3], 'd', i)
	end`, []string{log}, n, old, header).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		tb.Fatal(err)
	}
	return func(i int) signal.Position { return signal.Position{MS: old + int64(i)} }
}

// Job returns a queued job of account.
func Job(account signal.AccountID, now time.Time) signal.Job {
	keywords := []string{"a", strings.Repeat("ü", 100)}
	return signal.Job{
		ID: signal.NewJobID(), Run: signal.NewRunID(), Status: signal.JobQueued,
		CreatedAt: now.UTC().Truncate(time.Millisecond),
		Request: signal.RunRequest{
			Account: account, Agent: "seo", Asset: "Steh\"pult ü", Strategy: "blog_post", Timeframe: signal.H1,
			Risk:       signal.LowRisk,
			Parameters: signal.Parameters{Keywords: keywords, Features: []string{"b"}, Locale: "de-DE"},
		},
	}
}

// JobSignal returns a signal that job may end with.
func JobSignal(job signal.Job, now time.Time) *signal.Signal {
	return &signal.Signal{
		ID: signal.NewSignalID(), Account: job.Request.Account, Agent: "trading", Run: job.Run,
		Asset: "BTC", Strategy: "momentum", Timeframe: signal.H1, Risk: signal.MediumRisk,
		Direction: signal.Short, Confidence: 0.4372, FirstConfidence: 0.4372,
		Levels:    &signal.Levels{Entry: 100.5, Stop: 101, Target: 99.75},
		Metadata:  []byte(`{"indicators":["x"],"reasoning":"y"}`),
		CreatedAt: now, ExpiresAt: now.Add(time.Hour), Sequence: 1,
	}
}

// NextJob calls Next until it returns a job.
func NextJob(tb testing.TB, jobs interface {
	Next(ctx context.Context, limit int) ([]signal.Job, error)
}) signal.Job {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		jobs, err := jobs.Next(tb.Context(), 1)
		if err != nil {
			tb.Fatal(err)
		}
		if len(jobs) > 0 {
			return jobs[0]
		}
	}
	tb.Fatal("no job came")
	return signal.Job{}
}

// CompleteJob appends the end of job with a signal, and returns that.
func CompleteJob(tb testing.TB, log interface {
	Append(context.Context, signal.Change) (signal.Position, error)
}, job signal.Job, now time.Time) (*signal.Signal, error) {
	s := JobSignal(job, now)
	job.Status, job.Signal, job.CompletedAt = signal.JobCompleted, s, now
	job.ExpiresAt = now.Add(time.Hour).Truncate(time.Millisecond)
	started := signal.Event{Type: signal.AgentStarted, Agent: "trading", Run: job.Run, Data: []byte(`{}`)}
	change := Created(s)
	change.Job, change.Events = &job, append([]signal.Event{started}, change.Events...)
	p, err := log.Append(tb.Context(), change)
	s.CreatedAt, s.UpdatedAt, s.ExpiresAt = p.Time(), p.Time(), p.Time().Add(time.Hour)
	return s, err
}

// Schedule returns an enabled schedule of account.
func Schedule(account signal.AccountID) signal.Schedule {
	at := time.UnixMilli(1_800_000_000_000).UTC()
	return signal.Schedule{
		ID: signal.NewScheduleID(), Account: account, Agent: "trading", Assets: []string{"BTC", "ETH"},
		Strategy: "momentum", Timeframe: signal.M5, Risk: signal.HighRisk, Every: 5 * time.Minute, MaxOpen: 3,
		Status: signal.ScheduleEnabled, NextRunAt: at, CreatedAt: at.Add(-time.Hour), UpdatedAt: at.Add(-time.Minute),
	}
}

// Bar returns the i-th bar of BTC, 1h.
func Bar(i int64, closing float64) marketdata.AssetBar {
	open := 1_795_248_000_000 + i*3_600_000
	return marketdata.AssetBar{Asset: "BTC", Timeframe: signal.H1, Given: i%2 == 0, Bar: marketdata.Bar{
		OpenTime: open, CloseTime: open + 3_600_000,
		Open: 10, High: 20, Low: 5, Close: closing, Volume: 1.5, Flat: i%3 == 0,
	}}
}

// Webhook returns an enabled webhook that is not stored.
func Webhook(a signal.AccountID) delivery.Webhook {
	id := signal.NewWebhookID()
	return delivery.Webhook{
		ID: id, Account: a, URL: "https://example.com/" + string(id), APIVersion: "2026-11-01",
		Events: []signal.EventType{signal.SignalCreated, signal.WebhookTest},
		Status: delivery.WebhookEnabled, Secret: []byte("sealed\x00secret"),
	}
}

// Delivery returns a pending delivery of an event, due when it is created.
func Delivery(w *delivery.Webhook, e signal.EventID, at time.Time) delivery.Delivery {
	at = at.UTC()
	return delivery.Delivery{
		ID: signal.DeliveryIDOf(e, w.ID), Webhook: w.ID, Account: w.Account, Event: e, Type: signal.SignalCreated,
		Status: delivery.Pending, CreatedAt: at, NextAttemptAt: at,
	}
}

// Attempted returns d after an attempt that ended with a response status; 0 is a
// timeout. It is tried again at the given time, and has failed if that is zero.
func Attempted(d delivery.Delivery, status int, at, again time.Time) delivery.Delivery {
	a := delivery.Attempt{
		Number: d.AttemptCount() + 1, Trigger: delivery.Scheduled, At: at.UTC(), Duration: 710 * time.Millisecond,
		ResponseStatus: status, Error: fmt.Sprint("status ", status), ResponseBody: "answer",
	}
	d.WasDueAt, d.Single = d.NextAttemptAt, false
	d.Status, d.NextAttemptAt, d.CompletedAt = delivery.Failed, time.Time{}, at.UTC()
	switch {
	case status == 0:
		a.Error, a.ResponseBody = "timeout", ""
	case status < 300:
		a.Error, d.Status = "", delivery.Succeeded
	}
	if !again.IsZero() {
		d.Status, d.NextAttemptAt, d.CompletedAt = delivery.Pending, again.UTC(), time.Time{}
	}
	d.Scheduled++
	d.Error = a.Error
	d.Attempts = append(append([]delivery.Attempt(nil), d.Attempts...), a)
	return d
}
