package agent

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// node is the part of a process that belongs to this package, on a real Redis.
type node struct {
	agents *Agents
	store  *persistence.Store
	stop   func() // ends it in order
}

// startNode starts a node. Its workers take over jobs that others have held for idle.
func startNode(t *testing.T, url, id string, o Options, idle time.Duration) *node {
	t.Helper()
	s, err := persistence.Open(persistence.Options{URL: url, Partitions: 2, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	l := eventlog.NewLog(s.Logs, eventlog.LogOptions{})
	sys := engine.NewSystem(engine.Options{})
	o.Log, o.Now = l, s.Client.Now
	o.Jobs = jobs.New(s.Client, id, jobs.Options{Idle: idle, Search: 50 * time.Millisecond})
	a := New(sys, o)
	ctx, cancel := context.WithCancel(context.Background())
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		a.Work(ctx)
	}()
	n := &node{agents: a, store: s}
	n.stop = sync.OnceFunc(func() {
		cancel()
		<-worked
		end, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := a.Drain(end); err != nil {
			t.Error(err)
		}
		if err := sys.Shutdown(end); err != nil {
			t.Error(err)
		}
		if err := l.Close(end); err != nil {
			t.Error(err)
		}
		s.Client.Close()
	})
	t.Cleanup(n.stop)
	return n
}

// ended polls a job as a client does.
func (n *node) ended(t *testing.T, account signal.AccountID, id signal.JobID) signal.Job {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		j, err := n.agents.Job(t.Context(), account, id)
		if err != nil {
			t.Fatal(err)
		}
		if j.Status == signal.JobCompleted || j.Status == signal.JobFailed {
			return j
		}
	}
	t.Fatal("the job does not end")
	return signal.Job{}
}

// events returns the account's log.
func (n *node) events(t *testing.T, account signal.AccountID) []signal.Event {
	t.Helper()
	all, err := n.store.Logs.ReadLog(t.Context(), n.store.Client.Partition(account), signal.Position{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e signal.Event) bool { return e.Account != account })
}

func typesOf(events []signal.Event) (types eventTypes) {
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}

// TestRunOnRedis checks that the answer equals what is stored, in every field and to the
// millisecond.
func TestRunOnRedis(t *testing.T) {
	t.Parallel()
	n := startNode(t, redistest.New(t).URL(), "n1", Options{Market: &fakeMarket{}}, time.Minute)
	req := request("Größe \"東京\"")
	req.Account = signal.NewAccountID()
	got, err := n.agents.Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	events := n.events(t, req.Account)
	if diff := cmp.Diff(wholeRun, typesOf(events)); diff != "" {
		t.Fatal("events (-want +got):\n" + diff)
	}
	created := events[1]
	if diff := cmp.Diff(got.Signal.Initial, created.Initial); diff != "" || created.Initial.ExpectedRNet == nil {
		t.Error("initial values (-answered +stored):\n" + diff)
	}
	stored, err := n.store.Signals.SignalByID(t.Context(), req.Account, got.Signal.ID, created.Position,
		signal.Position{})
	if err != nil {
		t.Fatal(err)
	}
	// Initial is not part of what is read back of a signal.
	if diff := cmp.Diff(got.Signal, stored, cmpopts.IgnoreFields(signal.Signal{}, "Initial")); diff != "" {
		t.Error("signal (-answered +stored):\n" + diff)
	}
	if !got.Signal.CreatedAt.Equal(created.Time()) {
		t.Errorf("created at %v, its event at %v", got.Signal.CreatedAt, created.Time())
	}
	if l := created.Listing; l == nil || l.ID != got.Signal.ID || !l.CreatedAt.Equal(got.Signal.CreatedAt) ||
		*l.Entry != got.Signal.Levels.Entry {
		t.Errorf("listing is %+v", l)
	}
	var data struct {
		Asset      string
		Confidence float64
		Metadata   json.RawMessage
	}
	must(t, json.Unmarshal(created.Data, &data))
	if data.Asset != req.Asset || data.Confidence != got.Signal.Confidence ||
		string(data.Metadata) != string(got.Signal.Metadata) {
		t.Errorf("payload is %s", created.Data)
	}
}

func TestJobOnRedis(t *testing.T) {
	t.Parallel()
	n := startNode(t, redistest.New(t).URL(), "n1", Options{Market: &fakeMarket{}}, time.Minute)
	req := request("BTC")
	req.Account = signal.NewAccountID()
	job, err := n.agents.Submit(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := n.ended(t, req.Account, job.ID)
	events := n.events(t, req.Account)
	if diff := cmp.Diff(wholeRun, typesOf(events)); diff != "" {
		t.Fatal("events (-want +got):\n" + diff)
	}
	stored, err := n.store.Signals.SignalByID(t.Context(), req.Account, ended.Signal.ID, events[1].Position,
		signal.Position{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, ended.Signal); diff != "" {
		t.Error("signal (-stored +of the job):\n" + diff)
	}
	if ended.Run != job.Run || ended.StartedAt.IsZero() || !ended.CompletedAt.Equal(events[1].Time()) {
		t.Errorf("job is %+v", ended)
	}
}

// TestJobOfDeadProcess suspends a process between taking a job and its outcome. Another one
// runs the job again, under the same run id. When the first continues, its outcome is
// refused, and one signal is stored.
func TestJobOfDeadProcess(t *testing.T) {
	t.Parallel()
	url := redistest.New(t).URL()
	taken, wake := make(chan struct{}), make(chan struct{})
	suspended := seriesFunc(func() (market.Snapshot, error) {
		close(taken)
		<-wake
		return history(), nil
	})
	dead := startNode(t, url, "n1", Options{Market: &fakeMarket{series: suspended}}, time.Hour)
	req := request("BTC")
	req.Account = signal.NewAccountID()
	job, err := dead.agents.Submit(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-taken
	second := startNode(t, url, "n2", Options{Market: &fakeMarket{}}, 50*time.Millisecond)
	ended := second.ended(t, req.Account, job.ID)
	if ended.Status != signal.JobCompleted || ended.Attempt != 2 || ended.Run != job.Run {
		t.Errorf("job is %+v", ended)
	}
	close(wake)
	dead.stop()
	var created, completed int
	for _, e := range second.events(t, req.Account) {
		switch e.Type {
		case signal.SignalCreated:
			created++
		case signal.AgentCompleted:
			completed++
		}
		if e.Run != "" && e.Run != job.Run {
			t.Errorf("event of run %s, want %s", e.Run, job.Run)
		}
	}
	if created != 1 || completed != 1 {
		t.Errorf("%d signals and %d ends are stored, want one of each", created, completed)
	}
	if again := second.ended(t, req.Account, job.ID); again.Signal.ID != ended.Signal.ID {
		t.Errorf("the job's signal changed from %s to %s", ended.Signal.ID, again.Signal.ID)
	}
}

// TestJobsSurviveRedis checks that no job is lost when Redis is killed and restarted.
func TestJobsSurviveRedis(t *testing.T) {
	t.Parallel()
	r := redistest.NewDurable(t)
	// With everysec, Redis answers before it writes while the disk is busy with the
	// last second, so a killed one may lose what it has acknowledged.
	must(t, r.Client().ConfigSet(t.Context(), "appendfsync", "always").Err())
	n := startNode(t, r.URL(), "n1", Options{Market: &fakeMarket{}}, time.Minute)
	account := signal.NewAccountID()
	var jobs []signal.Job
	for i := range 40 {
		if i == 20 {
			r.Kill()
			r.Restart()
		}
		req := request("BTC")
		req.Account = account
		for { // as a client does that gets 503
			j, err := n.agents.Submit(t.Context(), req, nil)
			if err == nil {
				jobs = append(jobs, j)
				break
			}
			if signal.KindOf(err) != signal.KindUnavailable {
				t.Fatal(err)
			}
		}
	}
	for _, j := range jobs {
		if ended := n.ended(t, account, j.ID); ended.Status != signal.JobCompleted {
			t.Errorf("job %s ended with %v", j.ID, ended.Error)
		}
	}
}
