package jobs

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// Jobs of other kinds are stored, taken and ended as runs are.
func TestJobsOfOtherKinds(t *testing.T) {
	b := newJobBench(t, 2)
	j := b.jobs("n1", 0)
	account := signal.NewAccountID()
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	scan := newTestJob(account, b.store.Now())
	scan.Kind, scan.Request.Asset, scan.Assets = signal.JobScan, "", []string{"BTC", "eth", strings.Repeat("x", 200)}
	backtest := newTestJob(account, b.store.Now())
	backtest.Kind, backtest.From = signal.JobBacktest, day
	both := newTestJob(account, b.store.Now())
	both.Kind, both.From, both.To = signal.JobBacktest, day, day.Add(time.Hour)
	for _, job := range []signal.Job{scan, backtest, both} {
		storetest.Must(t, j.Enqueue(t.Context(), job, 10, nil))
		taken := b.next(j)
		want := job
		want.Status, want.Attempt, want.Entry, want.StartedAt = signal.JobRunning, 1, taken.Entry, taken.StartedAt
		if d := cmp.Diff(want, taken); d != "" {
			t.Errorf("taken (-want +got):\n%s", d)
		}
		taken.Status, taken.Result = signal.JobCompleted, []byte(`{"ranked":[],"errors":[]}`)
		taken.ExpiresAt = b.store.Now().Add(time.Hour)
		if _, err := b.log.Append(t.Context(), signal.Change{Account: account, Job: &taken}); err != nil {
			t.Fatal(err)
		}
		j.Done(taken)
		got, err := j.Job(t.Context(), account, job.ID)
		if err != nil || got.CompletedAt.IsZero() {
			t.Errorf("ended: %+v, %v", got, err)
		}
		want = taken
		want.Entry, want.CompletedAt, want.ExpiresAt = signal.Position{}, got.CompletedAt, got.ExpiresAt
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("ended (-want +got):\n%s", d)
		}
	}
	failed := newTestJob(account, b.store.Now())
	failed.Kind = signal.JobBacktest
	storetest.Must(t, j.Enqueue(t.Context(), failed, 10, nil))
	taken := b.next(j)
	taken.Status, taken.ExpiresAt = signal.JobFailed, b.store.Now().Add(time.Hour)
	taken.Error = &signal.RunError{Code: signal.InsufficientHistory, Message: "few"}
	if _, err := b.log.Append(t.Context(), signal.Change{Account: account, Job: &taken}); err != nil {
		t.Fatal(err)
	}
	got, err := j.Job(t.Context(), account, failed.ID)
	if err != nil || !cmp.Equal(got.Error, taken.Error) || got.Result != nil {
		t.Errorf("failed: %+v, %v", got, err)
	}
}

// oldJobRequest is a request as it was stored before jobs had kinds.
const oldJobRequest = "010101a1fd70f35b9d52dfd79b4d76429b610101a1fd70f2d25209c9d9343e92ba09ddf6c887d7bf68830d" +
	"7374616e64696e67206465736b8b92940002046465736b066865696768740005656e2d5553"

func TestEarlierJobRecordsAreRead(t *testing.T) {
	t.Parallel()
	value, err := hex.DecodeString(oldJobRequest)
	if err != nil {
		t.Fatal(err)
	}
	got, err := codec.DecodeJob("job_1", "queued 0", "", string(value), "")
	want := signal.Job{
		ID: "job_1", Run: "run_01M7YQ1WPJA84WKP9M7T9BM2EX", Status: signal.JobQueued,
		CreatedAt: time.UnixMilli(1795253400123).UTC(),
		Request: signal.RunRequest{
			Account: storetest.Account, Agent: "seo", Asset: "standing desk", Strategy: "blog_post",
			Timeframe: signal.H1, Risk: signal.LowRisk,
			Parameters: signal.Parameters{Keywords: []string{"desk", "height"}, Locale: "en-US"},
		},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("read (-want +got): %v\n%s", err, d)
	}
	// A process of the earlier version can read the records of runs.
	if again := hex.EncodeToString(codec.AppendJobRequest(nil, &got)); again != oldJobRequest {
		t.Errorf("written again as %s, want %s", again, oldJobRequest)
	}
}

// A process of the earlier version must not read a scan as a run.
func TestJobsOfOtherKindsHaveAVersionOfTheirOwn(t *testing.T) {
	t.Parallel()
	job := newTestJob(storetest.Account, time.Now())
	job.Kind = signal.JobScan
	if d := codec.Decode(codec.AppendJobRequest(nil, &job)); d.Err == nil {
		t.Error("a process that does not know scans would read one as a run")
	}
	job.Kind = "dance"
	if _, err := codec.DecodeJob("job_1", "queued 0", "", string(codec.AppendJobRequest(nil, &job)), ""); err == nil {
		t.Error("a job of an unknown kind is read")
	}
}

// TestAlertsAreCarriedOutOnce: by the request that brings it or, once it is queued, by one worker. No list shows its job.
func TestAlertsAreCarriedOutOnce(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", 0)
	ctx, account, now := t.Context(), signal.NewAccountID(), b.store.Now().UTC().Truncate(time.Millisecond)
	job := signal.Job{ID: signal.NewJobID(), Run: signal.NewRunID(), Kind: signal.JobAlert, Status: signal.JobQueued,
		CreatedAt: now, Request: signal.RunRequest{Account: account, Agent: "mine"},
		Alert: &signal.QueuedAlert{Intake: signal.NewIntakeID(), RequestID: "any text", Body: []byte("long BTC\nsl=1%")}}
	carry := func(a signal.Alert) string {
		t.Helper()
		a.Digest, a.Received, a.Answer = "d", now, "{}"
		_, err := b.log.Append(ctx, signal.Change{Account: account, Alert: &a})
		if err != nil && signal.CodeOf(err) == "" {
			t.Fatal(err)
		}
		return signal.CodeOf(err)
	}
	claim := func() chan struct{} {
		c := make(chan struct{}, 1)
		c <- struct{}{}
		return c
	}
	topic := []signal.AlertTopic{{Name: "BTC"}}
	fast, slow := claim(), claim()
	if code := carry(signal.Alert{Topics: topic, Claim: fast}); code != "" {
		t.Fatal(code)
	}
	if len(fast) != 0 || carry(signal.Alert{Claim: fast}) != "alert_queued" {
		t.Error("it could be queued after it was carried out")
	}
	if code := carry(signal.Alert{Topics: topic, Claim: slow}); code != "alert_overtaken" || len(slow) != 1 {
		t.Fatalf("%q, and it can be queued: %t", code, len(slow) == 1)
	}
	<-slow
	if code := carry(signal.Alert{Queued: &job}); code != "" {
		t.Fatal(code)
	}
	if code := carry(signal.Alert{Claim: slow}); code != "alert_queued" {
		t.Errorf("carried out after it was queued: %q", code)
	}
	for attempt := 1; attempt <= 2; attempt++ {
		taken := b.next(j)
		want := job
		want.Status, want.Attempt, want.Entry, want.StartedAt = signal.JobRunning, attempt, taken.Entry, taken.StartedAt
		if d := cmp.Diff(want, taken); d != "" {
			t.Errorf("taken (-want +got):\n%s", d)
		}
		former := taken
		former.Attempt--
		if code := carry(signal.Alert{Job: &former}); code != "job_lost" {
			t.Errorf("carried out by a former attempt: %q", code)
		}
		if attempt == 2 {
			if code := carry(signal.Alert{Topics: []signal.AlertTopic{{Name: "ETH"}}, Job: &taken}); code != "" {
				t.Error(code)
			}
			if code := carry(signal.Alert{Job: &taken}); code != "job_lost" {
				t.Errorf("carried out twice: %q", code)
			}
		}
		j.Done(taken) // the first time without an outcome
	}
	if list, total, err := j.Jobs(ctx, account, "", 10, 0); len(list) != 0 || total != 0 || err != nil {
		t.Errorf("%v %d %v", list, total, err)
	}
	rdb := b.server.Client()
	if left := rdb.Exists(ctx, b.store.JobKey(0, job.ID)).Val() + rdb.XLen(ctx, b.store.JobQueueKey(0)).Val(); left != 0 {
		t.Errorf("%d records or entries are left", left)
	}
}
