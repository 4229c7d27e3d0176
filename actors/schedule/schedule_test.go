package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// harness fakes everything around the schedules of one partition.
type harness struct {
	mu       sync.Mutex
	list     map[signal.ScheduleID]signal.Schedule
	epoch    int64
	failing  error                             // of the store
	onMove   func()                            // before a move
	unmoved  signal.ScheduleID                 // whose move fails
	run      func(req signal.RunRequest) error // nil if all succeed
	takes    time.Duration                     // of a run
	takesOf  map[signal.AgentID]time.Duration  // instead, if not nil
	open     map[string]int                    // by asset
	runs     []string                          // "SECOND ACCOUNT ASSET"
	now, max map[signal.AccountID]int          // runs in progress
	polls    int
	speeds   map[string]int64 // of bars, by asset; set before it begins
	ahead    time.Duration    // of the clock
	lost     []error
	quota    int // runs left, if bounded
	bounded  bool
	rounds   []signal.Round           // as recorded
	charged  map[signal.AccountID]int // calls of TakeRun
	metrics  *prometheus.Registry

	begun    time.Time
	follower ownership.Follower
	sys      *engine.System
	owner    engine.Ref
}

func (h *harness) DueSchedules(
	_ context.Context, _ int, until time.Time, limit int,
) (due []signal.Schedule, next time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.polls++
	if h.failing != nil {
		return nil, next, h.failing
	}
	for _, s := range h.list {
		switch {
		case s.Status == signal.ScheduleDisabled:
		case !s.NextRunAt.After(until):
			due = append(due, s)
		case next.IsZero() || s.NextRunAt.Before(next):
			next = s.NextRunAt
		}
	}
	slices.SortFunc(due, func(a, b signal.Schedule) int {
		return cmp.Or(a.NextRunAt.Compare(b.NextRunAt), cmp.Compare(a.ID, b.ID))
	})
	return due[:min(len(due), limit)], next, nil
}

func (h *harness) MoveSchedule(_ context.Context, _ int, epoch int64, s signal.Schedule, next time.Time) error {
	if h.onMove != nil {
		h.onMove()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.list[s.ID]
	switch {
	case s.ID == h.unmoved:
		return signal.Unavailable(errors.New("redis is down"))
	case epoch != h.epoch:
		return &signal.Error{Kind: signal.KindConflict, Code: "not_owner", Message: "not owner"}
	case !ok || known.Revision != s.Revision:
		return &signal.Error{Kind: signal.KindConflict, Code: "schedule_changed", Message: "changed"}
	}
	known.NextRunAt = next
	h.list[s.ID] = known
	return nil
}

func (h *harness) RecordRound(_ context.Context, _ int, epoch int64, s signal.Schedule, r signal.Round) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if epoch != h.epoch {
		return &signal.Error{Kind: signal.KindConflict, Code: "not_owner", Message: "not owner"}
	}
	if _, ok := h.list[s.ID]; !ok {
		return signal.NotFound("schedule")
	}
	h.rounds = append(h.rounds, r)
	return nil
}

func (h *harness) TakeRun(_ context.Context, account signal.AccountID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.charged[account]++
	if h.bounded {
		h.quota--
	}
	return !h.bounded || h.quota >= 0
}

func (h *harness) Run(ctx context.Context, req signal.RunRequest) error {
	h.mu.Lock()
	h.runs = append(h.runs, fmt.Sprintf("%v %s %s", time.Since(h.begun).Round(time.Second), req.Account, req.Asset))
	h.now[req.Account]++
	h.max[req.Account] = max(h.max[req.Account], h.now[req.Account])
	run, takes := h.run, h.takes
	if h.takesOf != nil {
		takes = h.takesOf[req.Agent]
	}
	h.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now[req.Account]--
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if run != nil {
		if err := run(req); err != nil {
			return err
		}
	}
	h.open[req.Asset]++
	return nil
}

func (h *harness) Full(_ context.Context, s *signal.Schedule, asset string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open[asset] >= s.MaxOpen, nil
}

// speed returns 60, except for assets in h.speeds.
func (h *harness) speed(_ context.Context, asset string) int64 { return cmp.Or(h.speeds[asset], 60) }

// clock is the clock of Redis, which may jump, unlike timers.
func (h *harness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

// set changes the fakes.
func (h *harness) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// put stores schedules and publishes the change.
func (h *harness) put(list ...signal.Schedule) {
	h.set(func() {
		for _, s := range list {
			h.list[s.ID] = s
		}
	})
	h.follower.Follow([]signal.Event{{Type: signal.SignalCreated}, {Type: signal.ScheduleChanged}})
}

// nextMinute grants a number of runs and waits for the next round.
func (h *harness) nextMinute(quota int) {
	h.set(func() { h.quota = quota })
	time.Sleep(time.Minute)
}

// ran returns the runs since its last call.
func (h *harness) ran() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	runs := h.runs
	h.runs = nil
	return runs
}

// recorded returns the rounds recorded since its last call.
func (h *harness) recorded() []signal.Round {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	rounds := h.rounds
	h.rounds = nil
	return rounds
}

// polled returns the number of polls since its last call.
func (h *harness) polled() int {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.polls
	h.polls = 0
	return n
}

func (h *harness) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := gocmp.Diff(want, h.ran()); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

type partitionOwner struct {
	h    *harness
	node *Node
}

func (o *partitionOwner) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		f := o.node.Start(c, ownership.Owned{Partition: 3, Epoch: 7, Owner: c.Self()})
		o.h.set(func() { o.h.follower = f })
	case ownership.Lost:
		o.h.set(func() { o.h.lost = append(o.h.lost, m.Err) })
	}
}

// withHarness runs a test in a bubble of synctest, with the schedules of a partition started.
func withHarness(t *testing.T, test func(t *testing.T, h *harness)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newHarness(t)) })
}

// newHarness starts the schedules of a partition. It must be called in a synctest bubble.
func newHarness(t *testing.T, list ...signal.Schedule) *harness {
	t.Helper()
	h := &harness{
		list:    map[signal.ScheduleID]signal.Schedule{},
		open:    map[string]int{},
		epoch:   7,
		begun:   time.Now(),
		now:     map[signal.AccountID]int{},
		max:     map[signal.AccountID]int{},
		charged: map[signal.AccountID]int{},
	}
	for _, s := range list {
		h.list[s.ID] = s
	}
	h.start()
	t.Cleanup(h.end)
	return h
}

func (h *harness) start() {
	h.sys = engine.NewSystem(engine.Options{})
	h.metrics = prometheus.NewRegistry()
	n := New(h, h, h, Options{Speed: h.speed, Quota: h, Now: h.clock, Metrics: NewMetrics(h.metrics)})
	produce := func() engine.Actor { return &partitionOwner{h, n} }
	h.owner = h.sys.Spawn(engine.Partition, "3", produce, engine.Supervision{})
	synctest.Wait()
}

// counted returns the number of runs with a result, by the metrics.
func (h *harness) counted(t *testing.T, result string) (n int) {
	t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == result {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

func (h *harness) end() { h.sys.Shutdown(context.Background()) }

// every returns a schedule that is due now.
func every(id string, minutes int, maxOpen int, assets ...string) signal.Schedule {
	return signal.Schedule{
		ID:        signal.ScheduleID("sch_" + id),
		Account:   "acc_1",
		Agent:     "trading",
		Assets:    assets,
		Strategy:  "momentum",
		Timeframe: signal.M5,
		Risk:      signal.LowRisk,
		Every:     time.Duration(minutes) * time.Minute,
		MaxOpen:   maxOpen,
		Status:    signal.ScheduleEnabled,
		NextRunAt: time.Now(),
	}
}

func TestSchedulesRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, every("a", 2, 100, "BTC", "ETH"))
		h.expect(t, "0s acc_1 BTC", "0s acc_1 ETH")
		time.Sleep(2*time.Minute + time.Second)
		h.expect(t, "2m0s acc_1 BTC", "2m0s acc_1 ETH")
		// A new schedule begins at once; changes and removals take effect.
		added := every("b", 1, 100, "SOL")
		h.put(added)
		h.expect(t, "2m1s acc_1 SOL")
		added.Status = signal.ScheduleDisabled
		h.put(added)
		h.set(func() { delete(h.list, "sch_a") })
		time.Sleep(10 * time.Minute)
		h.expect(t)
	})
}

func TestBars(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := every("a", 0, 100, "BTC") // bars of 5 minutes last 5 seconds
		s.NextRunAt = s.FirstRun(time.Now(), 60)
		later := every("b", 60, 100, "SOL")
		later.NextRunAt = time.Now().Add(time.Hour)
		h := newHarness(t, s, later)
		time.Sleep(16 * time.Second)
		// The bubble begins with a bar.
		h.expect(t, "1s acc_1 BTC", "6s acc_1 BTC", "11s acc_1 BTC", "16s acc_1 BTC")
	})
}

// A schedule of assets with bars of different durations runs each asset with its own bars.
func TestEachAssetHasItsOwnBars(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		s := every("a", 0, 1000, "FAST", "SLOW")
		s.NextRunAt = s.FirstRun(time.Now(), 60)
		h.set(func() { h.speeds = map[string]int64{"SLOW": 1} })
		h.put(s)
		time.Sleep(15 * time.Minute)
		fast, slow := 0, []string(nil)
		for _, run := range h.ran() {
			if strings.HasSuffix(run, "SLOW") {
				slow = append(slow, run)
			} else {
				fast++
			}
		}
		// A bar of 5 minutes closes at the beginning of the bubble, and is stored 2 s later.
		want := []string{"6s acc_1 SLOW", "5m6s acc_1 SLOW", "10m6s acc_1 SLOW"}
		if diff := gocmp.Diff(want, slow); diff != "" || fast != 180 {
			t.Errorf("%d runs of the fast one; of the slow one (-want +got):\n%s", fast, diff)
		}
	})
}

// After a jump forward the missed rounds become one; after a jump back rounds wait until
// the clock reaches the old time.
func TestClocksThatJump(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, every("a", 1, 1000, "BTC"))
		h.expect(t, "0s acc_1 BTC")
		time.Sleep(31 * time.Second)
		h.set(func() { h.ahead = 3 * time.Hour })
		time.Sleep(28 * time.Second)
		h.expect(t) // the clock is read every 30 s
		time.Sleep(2 * time.Second)
		h.expect(t, "1m0s acc_1 BTC")
		time.Sleep(time.Minute)
		h.expect(t, "2m0s acc_1 BTC")
		h.set(func() { h.ahead -= 10 * time.Minute })
		time.Sleep(10 * time.Minute)
		h.expect(t)
		time.Sleep(time.Minute)
		h.expect(t, "13m0s acc_1 BTC")
	})
}

func TestMaxOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, every("a", 1, 2, "BTC", "ETH"))
		time.Sleep(90 * time.Second)
		h.ran()
		time.Sleep(time.Minute)
		h.expect(t) // both have two
		h.set(func() { h.open["ETH"]-- })
		time.Sleep(time.Minute)
		h.expect(t, "3m0s acc_1 ETH")
	})
}

// A round is not repeated if the process stops in the middle of it.
func TestACrashRepeatsNothing(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.takes = 10 * time.Second })
		h.put(every("a", 5, 100, "BTC", "ETH"))
		time.Sleep(5 * time.Second)
		h.expect(t, "0s acc_1 BTC")
		h.end()
		h.start() // the next process
		h.expect(t)
		time.Sleep(5 * time.Minute)
		h.expect(t, "5m0s acc_1 BTC")
	})
}

func TestMissedRoundsBecomeOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := every("a", 1, 100, "BTC")
		s.NextRunAt = s.NextRunAt.Add(-time.Hour - 10*time.Second)
		h := newHarness(t, s)
		h.expect(t, "0s acc_1 BTC")
		time.Sleep(51 * time.Second)
		h.expect(t, "50s acc_1 BTC")
	})
}

// Assets without quota are skipped, and come first in the next round. A full asset does not
// use the quota.
func TestARoundEndsWithTheQuota(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.bounded, h.quota, h.open["A"] = true, 2, 100 })
		h.put(every("a", 1, 100, "A", "B", "C", "D", "E"))
		begun := time.Now()
		h.expect(t, "0s acc_1 B", "0s acc_1 C")
		if diff := gocmp.Diff([]signal.Round{{At: begun, Runs: 2, Skipped: true}}, h.recorded()); diff != "" {
			t.Errorf("first round (-want +got):\n%s", diff)
		}
		h.nextMinute(3)
		h.expect(t, "1m0s acc_1 D", "1m0s acc_1 E", "1m0s acc_1 B")
		if r := h.recorded(); len(r) != 1 || !r[0].Skipped || r[0].Runs != 3 {
			t.Errorf("second round %+v", r)
		}
		h.nextMinute(4)
		h.expect(t, "2m0s acc_1 C", "2m0s acc_1 D", "2m0s acc_1 E", "2m0s acc_1 B")
		if r := h.recorded(); len(r) != 1 || r[0].Skipped {
			t.Errorf("third round %+v", r)
		}
		h.nextMinute(4)
		h.expect(t, "3m0s acc_1 B", "3m0s acc_1 C", "3m0s acc_1 D", "3m0s acc_1 E") // after a complete round
		h.recorded()
		h.nextMinute(0)
		h.expect(t)
		if r := h.recorded(); len(r) != 1 || !r[0].Skipped || r[0].Runs != 0 {
			t.Errorf("fifth round %+v", r)
		}
		if n := h.counted(t, runSkipped); n != 2+1+4 {
			t.Errorf("%d runs are counted as skipped, want 7", n)
		}
		for account, n := range h.charged { // the refused run is counted, too
			if account != "acc_1" || n != 3+4+4+4+1 {
				t.Errorf("%d calls of TakeRun for %s", n, account)
			}
		}
	})
}

// Two assets take turns if the quota is enough for one of them.
func TestTwoAssetsTakeTurns(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.bounded, h.quota = true, 1 })
		h.put(every("a", 1, 100, "A", "B"))
		h.expect(t, "0s acc_1 A")
		for _, want := range []string{"1m0s acc_1 B", "2m0s acc_1 A", "3m0s acc_1 B"} {
			h.nextMinute(1)
			h.expect(t, want)
		}
	})
}

// failedRound returns a round whose last failed run ended after the given time.
func failedRound(begun time.Time, runs, failures int, code, message string, after time.Duration) signal.Round {
	last := &signal.ScheduleError{Code: code, Message: message, At: begun.Add(after)}
	return signal.Round{At: begun, Runs: runs, Failures: failures, Error: last}
}

// A run that times out counts as failed, and the next round runs.
func TestRunTimesOut(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.takes = time.Hour })
		begun := time.Now()
		h.put(every("a", 5, 100, "BTC"))
		time.Sleep(4 * time.Minute)
		want := []signal.Round{failedRound(begun, 1, 1, "TIMEOUT", "the run took too long", runTimeout)}
		if diff := gocmp.Diff(want, h.recorded()); diff != "" {
			t.Errorf("round (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Minute)
		h.expect(t, "0s acc_1 BTC", "5m0s acc_1 BTC")
	})
}

// If too many signals are open, a round ends with one failed run, without a retry.
func TestARoundEndsWithTooManySignals(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		refusal := &signal.Error{
			Kind:       signal.KindTooMany,
			Code:       signal.CodeTooManySignals,
			Message:    "too many",
			RetryAfter: time.Minute,
		}
		h.set(func() { h.run = func(signal.RunRequest) error { return refusal } })
		h.put(every("a", 60, 100, "BTC", "ETH", "SOL"))
		begun := time.Now()
		h.expect(t, "0s acc_1 BTC")
		want := []signal.Round{failedRound(begun, 1, 1, "too_many_signals", "too many", 0)}
		if diff := gocmp.Diff(want, h.recorded()); diff != "" {
			t.Errorf("round (-want +got):\n%s", diff)
		}
	})
}

// Rounds are recorded with the failures after their last success and with the last error, except
// interrupted ones.
func TestRoundsAreRecorded(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		begun, secret := time.Now(), errors.New("secret")
		outcomes := map[string]error{
			"X": &signal.RunError{Code: signal.DataUnavailable, Message: "no source knows X", Cause: secret},
			"Y": &signal.Error{Kind: signal.KindNotFound, Code: "not_found", Message: "no such agent", Cause: secret},
			"Z": secret,
		}
		h.set(func() {
			h.takes = time.Second
			h.run = func(req signal.RunRequest) error { return outcomes[req.Asset] }
		})
		h.put(every("a", 60, 100, "X", "BTC", "X", "Y"))
		h.put(every("b", 60, 100, "Z"))
		h.put(every("e", 60, 100, "Z", "BTC"))
		h.put(every("c", 60, 100, "ETH"))
		time.Sleep(10 * time.Second)
		got := h.recorded()
		slices.SortFunc(got, func(a, b signal.Round) int { return cmp.Or(a.Runs-b.Runs, a.Failures-b.Failures) })
		want := []signal.Round{
			{At: begun, Runs: 1},
			failedRound(begun, 1, 1, "INTERNAL", "the run failed unexpectedly", time.Second),
			failedRound(begun, 2, 0, "INTERNAL", "the run failed unexpectedly", time.Second),
			failedRound(begun, 4, 2, "not_found", "no such agent", 4*time.Second),
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("rounds (-want +got):\n%s", diff)
		}
		h.put(every("d", 60, 100, "BTC", "ETH"))
		time.Sleep(500 * time.Millisecond)
		h.end()
		if r := h.recorded(); len(r) > 0 {
			t.Errorf("an interrupted round is recorded: %+v", r)
		}
	})
}

func TestRoundsOfAScheduleDoNotOverlap(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.takes = 90 * time.Second })
		h.put(every("a", 1, 100, "BTC"))
		time.Sleep(3*time.Minute + 30*time.Second)
		// The round of minute 1 is skipped, that of minute 2 lasts until 3:30.
		h.expect(t, "0s acc_1 BTC", "2m0s acc_1 BTC")
	})
}

func TestRoundsOfAnAccountAreFew(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.takes = time.Second })
		var list []signal.Schedule
		for i := range 30 {
			s := every(fmt.Sprintf("%02d", i), 60, 100, "BTC", "ETH")
			if i%3 == 0 {
				s.Account = "acc_2"
			}
			list = append(list, s)
		}
		h.put(list...)
		time.Sleep(time.Minute)
		runs := h.ran()
		h.set(func() {
			if len(runs) != 60 || h.max["acc_1"] != builtInRounds.account || h.max["acc_2"] != builtInRounds.account {
				t.Errorf("%d runs, at once %v", len(runs), h.max)
			}
		})
	})
}

func TestRoundsOfAPartitionAreBounded(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.takes = time.Second })
		var list []signal.Schedule
		for i := range 40 {
			s := every(fmt.Sprintf("%02d", i), 60, 100, "BTC")
			s.Account = signal.AccountID(fmt.Sprint("acc_", i))
			list = append(list, s)
		}
		h.put(list...)
		most := builtInRounds.partition
		for _, want := range []int{most, most, 40 - 2*most, 0} {
			if runs := h.ran(); len(runs) != want {
				t.Errorf("%d runs begin at once, want %d", len(runs), want)
			}
			time.Sleep(time.Second)
		}
	})
}

// An account's agent that hangs delays neither its other schedules nor those of other accounts.
func TestAnAgentThatHangsDelaysNoOther(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() {
			h.takesOf = map[signal.AgentID]time.Duration{"hangs": 30 * time.Second, "mine": time.Second, "trading": time.Second}
		})
		var list []signal.Schedule
		add := func(n int, account signal.AccountID, agent signal.AgentID, asset string) {
			for range n {
				s := every(fmt.Sprintf("%03d", len(list)), 60, 100, asset)
				s.Account, s.Agent = account, agent
				list = append(list, s)
			}
		}
		for i := range builtInRounds.partition {
			add(8, signal.AccountID(fmt.Sprint("acc_", i)), "hangs", "SLOW")
		}
		add(2, "acc_1", "trading", "BTC")
		add(2, "acc_1", "mine", "ETH")
		add(1, "acc_x", "trading", "SOL")
		h.put(list...)
		began := map[string]int{}
		for _, run := range h.ran() {
			began[run]++
		}
		for run, want := range map[string]int{"0s acc_0 SLOW": ownRounds.agent, "0s acc_1 SLOW": ownRounds.agent,
			"0s acc_1 BTC": 2, "0s acc_1 ETH": 2, "0s acc_x SOL": 1} {
			if began[run] != want {
				t.Errorf("%s begins %d times, want %d", run, began[run], want)
			}
		}
		time.Sleep(2 * time.Minute)
		if n := len(h.ran()); n != 6*builtInRounds.partition {
			t.Errorf("%d rounds begin later, want %d", n, 6*builtInRounds.partition)
		}
	})
}

// Many agents of an account that hang do not delay another of its agents.
func TestManyAgentsThatHangDelayNoOther(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		takes, list := map[signal.AgentID]time.Duration{"mine": time.Second}, []signal.Schedule(nil)
		for i := range 3 * ownRounds.account {
			s := every(fmt.Sprintf("%03d", i), 60, 100, "SLOW")
			s.Account, s.Agent = "acc_1", signal.AgentID(fmt.Sprint("hangs_", i%(3*ownRounds.account/2)))
			takes[s.Agent], list = 30*time.Second, append(list, s)
		}
		s := every("999", 60, 100, "ETH")
		s.Account, s.Agent = "acc_1", "mine"
		h.set(func() { h.takesOf = takes })
		h.put(append(list, s)...)
		if runs := h.ran(); !slices.Contains(runs, "0s acc_1 ETH") || len(runs) != 3*ownRounds.account/2+1 {
			t.Errorf("%d rounds begin: %v", len(runs), runs)
		}
	})
}

func TestWaitingRoundsAreBounded(t *testing.T) {
	t.Parallel()
	o := &owned{Node: &Node{}, log: slog.New(slog.DiscardHandler)}
	s := newSchedules(o)
	for i := range maxWaiting + 3 {
		s.enqueue(signal.Schedule{ID: signal.ScheduleID(fmt.Sprint(i))})
	}
	if len(s.waiting) != maxWaiting || len(s.busy) != maxWaiting {
		t.Errorf("%d rounds wait, %d are busy, want %d", len(s.waiting), len(s.busy), maxWaiting)
	}
}

func TestEndedRoundsAreForgotten(t *testing.T) {
	t.Parallel()
	s := newSchedules(&owned{Node: &Node{}, log: slog.New(slog.DiscardHandler)})
	for _, id := range []signal.ScheduleID{"sch_1", "sch_2"} {
		groups := groupsOf(&signal.Schedule{Account: "acc_1", Agent: "trading"})
		for _, g := range groups {
			s.rounds[g]++
		}
		s.running[id], s.busy[id] = underWay{groups: groups}, true
	}
	s.onRoundOver(nil, roundOver{schedule: "sch_2"})
	if len(s.running) != 1 || len(s.rounds) != 3 || !s.busy["sch_1"] {
		t.Errorf("the end of one of two rounds leaves %v, %v and %v", s.running, s.rounds, s.busy)
	}
	s.onRoundOver(nil, roundOver{schedule: "sch_1"})
	if len(s.running) > 0 || len(s.rounds) > 0 || len(s.busy) > 0 {
		t.Errorf("the end of a round leaves %v, %v and %v", s.running, s.rounds, s.busy)
	}
}

// When an account is deleted, its waiting rounds are dropped and its running ones end, and no
// later one begins while its schedules are not erased yet. Those of others go on.
func TestADeletedAccountRunsNothing(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.takes = 15 * time.Second })
		assets := make([]string, 50)
		for i := range assets {
			assets[i] = fmt.Sprint("A", i)
		}
		var list []signal.Schedule
		for i := range 2 * builtInRounds.partition {
			s := every(fmt.Sprintf("%02d", i), 1, 1000, assets...)
			s.Account = signal.AccountID(fmt.Sprint("acc_", i/(builtInRounds.account+1)))
			list = append(list, s)
		}
		other := every("other", 60, 1000, assets[:3]...)
		other.Account = "acc_other" // waits for one of the partition's rounds
		h.put(append(list, other)...)
		time.Sleep(20 * time.Second)
		if runs := h.ran(); len(runs) != 2*builtInRounds.partition {
			t.Errorf("%d runs before the deletion", len(runs))
		}
		h.follower.Follow([]signal.Event{
			{Type: signal.AccountDeleted, Account: "acc_0"},
			{Type: signal.ScheduleChanged, Account: "acc_1"},
			{Type: signal.AccountDeleted, Account: "acc_3"},
		})
		time.Sleep(30 * time.Minute)
		others := map[string]bool{}
		for _, run := range h.ran() {
			account := strings.Fields(run)[1]
			if account == "acc_0" || account == "acc_3" {
				t.Fatalf("after the deletion of two accounts: %s", run)
			}
			others[account] = true
		}
		if !others["acc_1"] || !others["acc_2"] || !others["acc_other"] {
			t.Errorf("runs of %v go on", others)
		}
		for _, r := range h.recorded() {
			if r.Runs != len(assets) && r.Runs != len(other.Assets) {
				t.Errorf("an interrupted round is recorded: %+v", r)
			}
		}
	})
}

// A schedule that was moved before its account was deleted does not run after it.
func TestAnAccountIsDeletedDuringAPoll(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.onMove = func() {
			h.follower.Follow([]signal.Event{{Type: signal.AccountDeleted, Account: "acc_1"}})
			time.Sleep(time.Millisecond) // until the actor is notified
		}
		h.put(every("a", 1, 100, "BTC"))
		time.Sleep(5 * time.Minute)
		h.expect(t)
	})
}

// Schedules beyond the limit of one poll are polled at once.
func TestMoreThanOnePollIsDue(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		var list []signal.Schedule
		for i := range 2*pollLimit + 50 {
			list = append(list, every(fmt.Sprintf("%03d", i), 60, 1000, "BTC"))
		}
		h.put(list...)
		time.Sleep(time.Second)
		if runs := h.ran(); len(runs) != 2*pollLimit+50 {
			t.Errorf("%d runs within a second", len(runs))
		}
	})
}

// A schedule that is added during a poll does not wait for the next regular one.
func TestChangeDuringAPoll(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		added := false
		h.onMove = func() {
			if !added {
				added = true
				h.put(every("b", 60, 100, "ETH"))
				time.Sleep(time.Millisecond) // until the actor is notified
			}
		}
		h.put(every("a", 60, 100, "BTC"))
		time.Sleep(time.Second)
		runs := h.ran()
		slices.Sort(runs) // rounds run side by side
		if diff := gocmp.Diff([]string{"0s acc_1 BTC", "0s acc_1 ETH"}, runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
	})
}

// Moved schedules run even if the move of another one fails, which runs later.
func TestMovedSchedulesRun(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.unmoved = "sch_b" })
		h.put(every("a", 60, 100, "BTC"), every("b", 60, 100, "ETH"))
		time.Sleep(100 * time.Millisecond)
		h.expect(t, "0s acc_1 BTC")
		h.set(func() { h.unmoved = "" })
		time.Sleep(2 * retryEvery)
		h.expect(t, "1s acc_1 ETH")
	})
}

// A run that is refused three times has failed, and uses one run of the quota.
func TestBusyAgentIsTriedThreeTimes(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() {
			h.bounded, h.quota = true, 9
			h.run = func(signal.RunRequest) error {
				return &signal.Error{Kind: signal.KindTooMany, Code: "too_many_runs", Message: "busy"}
			}
		})
		h.put(every("a", 60, 100, "BTC"))
		time.Sleep(30 * time.Second)
		h.expect(t, "0s acc_1 BTC", "1s acc_1 BTC", "2s acc_1 BTC")
		if r := h.recorded(); len(r) != 1 || r[0].Failures != 1 || r[0].Error.Code != "too_many_runs" {
			t.Errorf("recorded %+v", r)
		}
		h.set(func() {
			if h.quota != 8 {
				t.Errorf("%d runs of 9 are left", h.quota)
			}
		})
	})
}

func TestAFormerOwnerStops(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.epoch = 8 })
		h.put(every("a", 1, 100, "BTC"))
		h.expect(t)
		h.set(func() {
			if len(h.lost) != 1 || signal.CodeOf(h.lost[0]) != "not_owner" {
				t.Errorf("the owner received %v", h.lost)
			}
		})
	})
}

func TestAChangeBetweenReadAndMove(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		changed := false
		h.onMove = func() {
			if !changed {
				changed = true
				s := every("a", 1, 100, "ETH")
				s.Revision = "new"
				h.set(func() { h.list[s.ID] = s })
			}
		}
		h.put(every("a", 1, 100, "BTC"))
		h.expect(t, "0s acc_1 ETH")
	})
}

func TestPollsWhileTheStoreIsDown(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.failing = signal.Unavailable(errors.New("redis is down")) })
		h.put(every("a", 1, 100, "BTC"))
		time.Sleep(10 * time.Second)
		h.expect(t)
		if n := h.polled(); n > 15 {
			t.Errorf("polled %d times", n)
		}
		h.set(func() { h.failing = nil })
		time.Sleep(2 * time.Second)
		h.expect(t, "11s acc_1 BTC")
		// Without schedules it polls rarely.
		h.set(func() { clear(h.list) })
		h.polled()
		time.Sleep(10 * time.Minute)
		if n := h.polled(); n > 21 {
			t.Errorf("polled %d times without need", n)
		}
	})
}

func TestRunsThatFail(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		tries, retry := 0, 3*time.Second
		h.set(func() {
			h.run = func(req signal.RunRequest) error {
				switch req.Asset {
				case "AAPL":
					return &signal.RunError{Code: signal.MarketClosed, RetryAfter: 150 * time.Second}
				case "BTC":
					if tries++; tries == 1 {
						return &signal.Error{Kind: signal.KindTooMany, Code: "too_many_runs", RetryAfter: retry}
					}
				case "X":
					return &signal.RunError{Code: signal.DataUnavailable, RetryAfter: time.Hour} // the market is open
				}
				return nil
			}
		})
		h.put(every("a", 1, 100, "AAPL", "X", "BTC"))
		time.Sleep(5 * time.Second)
		h.expect(t, "0s acc_1 AAPL", "0s acc_1 X", "0s acc_1 BTC", "3s acc_1 BTC")
		time.Sleep(2 * time.Minute)
		h.expect(t, "1m0s acc_1 X", "1m0s acc_1 BTC", "2m0s acc_1 X", "2m0s acc_1 BTC")
		time.Sleep(time.Minute)
		if runs := strings.Join(h.ran(), ","); !strings.HasPrefix(runs, "3m0s acc_1 AAPL") {
			t.Errorf("after the closure: %s", runs)
		}
	})
}
