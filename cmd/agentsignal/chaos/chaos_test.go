package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	nodes    = 3
	accounts = 12
	streams  = 6
	workers  = 4
	// workPause separates two requests of a worker.
	workPause = 250 * time.Millisecond
	// settleTime bounds the wait until all is closed, delivered and sent.
	settleTime = 2 * time.Minute
	// watchEvery is the time between two looks at the owners of the partitions.
	watchEvery = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	commandtest.Prepare()
	os.Exit(m.Run())
}

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

	c := newCluster(t, nodes, redis)
	l := newClients(t, c, accounts)
	installed, err := redisclient.Existing(t.Context(), persistence.Options{URL: c.redis.URL(), WaitReplicas: c.replicas})
	commandtest.Must(t, err)
	store, err := persistence.Open(installed)
	commandtest.Must(t, err)
	defer store.Client.Close()

	ctx, stop := context.WithCancel(t.Context())
	var watching, working sync.WaitGroup
	defer watching.Wait()
	defer stop()
	l.start(ctx, &watching)
	watching.Go(func() { watchOwners(ctx, store, l.record) })
	busy, calm := context.WithCancel(ctx)
	defer working.Wait()
	defer calm()
	for i := range workers {
		working.Go(func() { l.work(busy, i, workPause) })
	}

	begun := time.Now()
	for round := 0; round == 0 || time.Since(begun) < length; round++ {
		list := slices.Clone(c.faults)
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, f := range list {
			at := time.Now()
			f.make(c, random)
			t.Logf("%s to %s: %s", clock(at), clock(time.Now()), f.name)
			time.Sleep(between(random, 0, lease))
		}
	}
	calm()
	working.Wait()

	var log []logged
	var found []string
	settled := time.Now().Add(settleTime)
	for {
		log = readLog(t, store)
		if found = l.record.verdict(log, nil); len(found) == 0 || time.Now().After(settled) {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	stop()
	watching.Wait()
	if len(found) == 0 {
		found = l.record.verdict(log, l.lists())
	}
	report(t, found)
	l.summary(log)
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
		u := l.users[i%len(l.users)]
		w := &watched{account: u.id}
		l.record.streams = append(l.record.streams, w)
		begun := make(chan struct{})
		group.Go(func() { l.follow(ctx, w, u.key, i, begun) })
		<-begun
	}
	for i, u := range l.users {
		l.run(u, i, map[string]any{"asset": "BTC", "strategy": "momentum", "timeframe": "1m"})
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

// watchOwners notes the epochs of all partitions until ctx ends. An epoch counts once replicas have it:
// one that only a master had which was replaced is forgotten, and its owner is refused.
func watchOwners(ctx context.Context, store *persistence.Store, r *record) {
	last := map[int]int64{}
	for ctx.Err() == nil {
		for p := range store.Client.Partitions() {
			node, epoch, err := store.Logs.Owner(ctx, p)
			if err != nil || node == "" || epoch == last[p] || store.Client.ConfirmRead(ctx, store.Client.ConfirmKey(p)) != nil {
				continue
			}
			// Once more, since the confirmation may be that of another master.
			if _, again, err := store.Logs.Owner(ctx, p); err == nil && again == epoch {
				r.owned(p, epoch)
				last[p] = epoch
			}
		}
		time.Sleep(watchEvery)
	}
}

// readLog returns all creations and closings in the signal logs.
func readLog(tb testing.TB, store *persistence.Store) []logged {
	tb.Helper()
	var log []logged
	for p := range store.Client.Partitions() {
		commandtest.Must(tb, store.Signals.ScanSignals(tb.Context(), p, func(e signal.LogEntry) error {
			switch {
			case e.Created != nil:
				log = append(log, logged{change{Signal: e.Created.ID}, e.Account, e.Position})
			case e.Closed:
				log = append(log, logged{change{e.ID, true}, e.Account, e.Position})
			}
			return nil
		}))
	}
	return log
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
func (l *clients) summary(log []logged) {
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
		for _, w := range l.record.streams {
			resumes += w.resumes
			events += len(w.events)
		}
		l.tb.Log(fmt.Sprintf("%d entries of the log, %d runs answered, %d given up; %d requests to webhooks, "+
			"%d of them repeated; %d events on %d streams with %d resumes", len(log), len(l.record.acknowledged), l.record.givenUp, requests, twice,
			events, streams, resumes))
	})
}
