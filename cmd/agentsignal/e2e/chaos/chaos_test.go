package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	nodes    = 3
	accounts = 12
	streams  = 6
	workers  = 4
	// workPause separates two requests of a worker.
	workPause = 250 * time.Millisecond
	// bursting is how many accounts have bursts, and no other work.
	bursting = accounts / 2
	// burstRate is how many runs a second are asked for beside the workers from burstLead before a fault, burstTime for how
	// long at most, and burstOpen how many of them may be without an answer: beyond it runs are left out.
	burstRate, burstOpen = 60, 256
	burstLead, burstTime = 500 * time.Millisecond, 10 * time.Second
	// longestJump is by how much a clock of Redis jumps at most.
	longestJump = 2 * time.Minute
	// settleTime bounds the wait until all is closed, delivered and sent. What is due by a clock that was ahead
	// comes late by as much.
	settleTime = 2*time.Minute + longestJump
	// printMissing is how often a check that waits prints what is missing.
	printMissing = 10 * time.Second
	// watchEvery is the time between two looks at the owners of the partitions.
	watchEvery = 50 * time.Millisecond
)

func TestMain(m *testing.M) { os.Exit(e2e.MainUnlessShort(m)) }

// setting returns an environment variable, parsed, or a default.
func setting[T any](tb testing.TB, name string, parse func(string) (T, error), otherwise T) T {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	v, err := parse(text)
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return v
}

// TestFaults makes faults while clients work, and compares what these saw with the log.
func TestFaults(t *testing.T) {
	seed := setting(t, "CHAOS_SEED", func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }, rand.Uint64())
	length := setting(t, "CHAOS_FOR", time.ParseDuration, 0)
	redis := cmp.Or(os.Getenv("CHAOS_REDIS"), "server")
	// Not t.Log, which prints nothing when the test runs into its time limit.
	fmt.Printf("CHAOS_REDIS=%s CHAOS_SEED=%d\n", redis, seed)
	random := rand.New(rand.NewPCG(seed, 0))

	c := newCluster(t, e2e.Program(t), nodes, redis)
	faults, err := selected(c.faults, os.Getenv("CHAOS_FAULT"), length > 0)
	commandtest.Must(t, err)
	l := newClients(t, c, accounts)
	defer l.begin(t)()
	begun := time.Now()
	for round := 0; round == 0 || time.Since(begun) < length; round++ {
		list := slices.Clone(faults)
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, f := range list {
			l.endure(f, random)
			if length > 0 {
				l.check("after the " + f.name)
			}
			time.Sleep(between(random, 0, lease))
		}
	}
	l.check("at the end")
}

// begin lets the clients work, and looks at the owners, until end is called. That is before the context of the test
// ends, so that requests under way are answered.
func (l *clients) begin(t *testing.T) (end func()) {
	t.Helper()
	installed, err := redisclient.Existing(t.Context(),
		persistence.Options{URL: l.cluster.redis.URL(), WaitReplicas: l.cluster.replicas})
	commandtest.Must(t, err)
	store, err := persistence.Open(installed)
	commandtest.Must(t, err)
	l.cluster.store = store
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	l.start(ctx, &working)
	working.Go(func() { watchOwners(ctx, store, l.record) })
	for i := range workers {
		working.Go(func() { l.work(ctx, i, workPause) })
	}
	return func() {
		stop()
		working.Wait()
		store.Client.Close()
	}
}

// endure makes a fault during a burst of runs.
func (l *clients) endure(f fault, random *rand.Rand) {
	l.tb.Helper()
	ctx, stop := context.WithTimeout(l.tb.Context(), burstTime)
	defer stop()
	var burst sync.WaitGroup
	burst.Go(func() { l.burst(ctx) })
	time.Sleep(burstLead)
	at := time.Now()
	f.make(l.cluster, random)
	stop()
	burst.Wait()
	l.tb.Logf("%s to %s: %s", clock(at), clock(time.Now()), f.name)
}

// check ends the test if something is wrong once the clients have paused.
func (l *clients) check(when string) {
	l.tb.Helper()
	found := l.settle(when, func([]string) bool { return false })
	report(l.tb, found)
	if len(found) > 0 {
		l.tb.FailNow()
	}
}

// settle stops the work until all is closed, delivered and sent, compares what the clients saw with the log, and
// returns what is wrong. It waits until settleTime has passed or enough is true of what is wrong so far.
func (l *clients) settle(when string, enough func(found []string) bool) (found []string) {
	l.tb.Helper()
	l.busy.Lock()
	defer l.busy.Unlock()
	var log []logged
	printed := time.Now()
	for settled := printed.Add(settleTime); ; time.Sleep(200 * time.Millisecond) {
		var err error
		if log, found, err = readLog(l.tb.Context(), l.cluster.store); err != nil { // a first read of another master: decision 50
			found = []string{"read the log: " + err.Error()}
		} else {
			found = append(found, l.record.verdict(log, nil)...)
		}
		if len(found) == 0 || time.Now().After(settled) || enough(found) {
			break
		}
		if time.Since(printed) >= printMissing {
			printed = time.Now()
			const most = 5
			fmt.Printf("%s %s it waits, since %d checks do not hold yet:\n\t%s\n", clock(printed), when, len(found),
				strings.Join(found[:min(len(found), most)], "\n\t"))
		}
	}
	if len(found) == 0 {
		found = l.record.verdict(log, l.lists())
	}
	l.summary(when, log)
	return found
}

// clock writes a time as logs of the nodes do.
func clock(at time.Time) string { return at.UTC().Format("15:04:05.000") }

// report fails the test if there are faults.
func report(tb testing.TB, found []string) {
	tb.Helper()
	const most = 50
	for _, f := range found[:min(len(found), most)] {
		tb.Error(f)
	}
	if len(found) > most {
		tb.Errorf("and %d more", len(found)-most)
	}
}

// start opens the streams and waits until each is subscribed and has seen an event, from whose id it can
// resume.
func (l *clients) start(ctx context.Context, group *sync.WaitGroup) {
	l.tb.Helper()
	for i := range streams {
		u := l.users[i*len(l.users)/streams]
		w := &watched{account: u.id}
		l.record.streams = append(l.record.streams, w)
		begun := make(chan struct{})
		group.Go(func() { l.follow(ctx, w, u.key, i, begun) })
		<-begun
	}
	for i, u := range l.users {
		l.run(u, i)
	}
	commandtest.Eventually(l.tb, "each stream has an event", func() bool {
		ok := true
		l.record.note(func() {
			for _, w := range l.record.streams {
				ok = ok && len(w.events) > 0
			}
		})
		return ok
	})
}

// watchOwners notes the epochs of all partitions and of the market until ctx ends. An epoch counts once replicas have it:
// one that only a master had which was replaced is forgotten, and its owner is refused.
func watchOwners(ctx context.Context, store *persistence.Store, r *record) {
	last := map[string]int64{}
	feeder := market.New(store.Client).Feeder
	tag, _, _ := strings.Cut(store.Client.FeederEpochKey(), "}")
	for ctx.Err() == nil {
		look := func(what, confirm string, owner func(context.Context) (string, int64, error)) {
			node, epoch, err := owner(ctx)
			if err != nil || node == "" || epoch == last[what] || store.Client.Reads.Confirm(ctx, confirm) != nil {
				return
			}
			// Once more, since the confirmation may be that of another master.
			if _, again, err := owner(ctx); err == nil && again == epoch {
				r.owned(what, epoch)
				last[what] = epoch
			}
		}
		for p := range store.Client.Partitions() {
			look(fmt.Sprintf("partition %d", p), store.Client.ConfirmKey(p),
				func(ctx context.Context) (string, int64, error) { return store.Logs.Leases.Owner(ctx, p) })
		}
		look("the market", tag+"}:confirm", feeder)
		time.Sleep(watchEvery)
	}
}

// readLog returns all creations and closings in the signal logs, and what of their leaves is wrong.
func readLog(ctx context.Context, store *persistence.Store) (log []logged, found []string, err error) {
	for p := range store.Client.Partitions() {
		before := len(log)
		err := store.Signals.ScanSignals(ctx, p, func(e signal.LogEntry) error {
			if e.Created != nil || e.Closed {
				log = append(log, logged{change{signal.SignalIDFromBytes(e.ULID), e.Closed}, e.Account, e.Position})
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		leaves, err := store.Leaves.CheckLeaves(ctx, p, time.Unix(0, 0))
		if err != nil {
			return nil, nil, err
		}
		if entries := int64(len(log) - before); leaves.Leaves != entries {
			found = append(found, fmt.Sprintf("partition %d has %d entries and %d leaves", p, entries, leaves.Leaves))
		}
		for _, f := range leaves.Findings {
			found = append(found, fmt.Sprintf("partition %d, leaf %d, %s: %s", p, f.Leaf, f.Signal, f.What))
		}
	}
	return log, found, nil
}

// lists returns what each node lists for each account.
func (l *clients) lists() map[string]map[signal.AccountID][]signal.SignalID {
	l.tb.Helper()
	all := map[string]map[signal.AccountID][]signal.SignalID{}
	for _, n := range l.cluster.nodes {
		all[n.name] = map[signal.AccountID][]signal.SignalID{}
		for _, u := range l.users {
			all[n.name][u.id] = l.listed(*n.url.Load(), u)
		}
	}
	return all
}

// summary logs how much was compared.
func (l *clients) summary(when string, log []logged) {
	l.record.note(func() {
		requests, twice, resumes, events := 0, 0, 0, 0
		for _, changes := range l.record.delivered {
			for _, ids := range changes {
				for _, n := range ids {
					requests += n
					twice += n - 1
				}
			}
		}
		givenUp := 0
		for _, n := range l.record.givenUp {
			givenUp += n
		}
		for _, w := range l.record.streams {
			resumes += w.resumes
			events += len(w.events)
		}
		l.tb.Logf("%s: %d entries of the log, %d runs answered, %d given up; %d requests to webhooks, "+
			"%d of them repeated; %d events on %d streams with %d resumes", when, len(log), len(l.record.acknowledged),
			givenUp, requests, twice, events, streams, resumes)
	})
}
