package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/market"
)

const (
	takeoverRounds  = 20
	takeoverSignals = 1000
	takeoverPoll    = 5 * time.Millisecond
)

// takeoverBenchmark is the benchmark takeover.
type takeoverBenchmark struct {
	*report
	rounds  int // in which a node ends, for each way
	signals int // open ones that close in no round
}

// define implements adjustable.
func (b *takeoverBenchmark) define(c *cobra.Command) {
	c.Flags().IntVar(&b.rounds, "rounds", takeoverRounds, "how often a node ends in each way")
	c.Flags().IntVar(&b.signals, "signals", takeoverSignals, "open signals that close in no round")
}

// measure measures how soon one of two nodes does the work of the other, which is killed or asked to
// end: a round gives each account a signal that closes at the next price, ends the first node, moves the
// price and opens a signal of each account. Both reach a webhook of the account.
func (b *takeoverBenchmark) measure(ctx context.Context) (err error) {
	if b.rounds < 1 {
		return errors.New("--rounds must be at least 1")
	}
	t, err := newTakeovers(ctx, b.signals)
	if err != nil {
		return err
	}
	defer t.end(ctx, &err)
	for range 2 {
		if err := t.addNode(ctx, 0); err != nil {
			return err
		}
	}
	for _, how := range []struct {
		name, targets string
		signal        syscall.Signal
	}{
		{"kill -9", "lease + 2 s = 7 s", syscall.SIGKILL},
		{"SIGTERM", "leases 1 s, exit 2 s", syscall.SIGTERM},
	} {
		all := takenOver{}
		for range b.rounds {
			if err := t.round(ctx, how.signal, &all); err != nil {
				return fmt.Errorf("%s: %w", how.name, err)
			}
		}
		b.row(fmt.Sprintf("%s, %d times, %d signals", how.name, b.rounds, b.signals), "(target %s)", how.targets)
		for _, m := range []struct {
			what  string
			taken []time.Duration
		}{
			{"all leases of the node elsewhere", all.leases},
			{"a partition's first delivery", all.delivered},
			{"a partition's first closing, delivered", all.closed},
			{"exit", all.exit},
		} {
			slices.Sort(m.taken)
			b.row("  "+m.what, "p50 %s, max %s", short(percentile(m.taken, 50)), short(percentile(m.taken, 100)))
		}
	}
	return nil
}

// takenOver holds the times from the signal to the first node.
type takenOver struct {
	leases, exit      []time.Duration // of a round
	delivered, closed []time.Duration // of a partition of the node
}

// takeovers is a cluster whose accounts have a webhook each.
type takeovers struct {
	*cluster
	prices *market.Store

	mu      sync.Mutex
	arrived map[string]time.Time // first delivery of a type of event to an account, as /ACCOUNT/TYPE
}

// newTakeovers opens signals, whose events do not reach the webhooks, and registers these.
func newTakeovers(ctx context.Context, signals int) (_ *takeovers, err error) {
	c, err := newCluster(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.end(ctx, &err)
		}
	}()
	c.env = append(c.env, withTicks)
	t := &takeovers{cluster: c, prices: market.New(c.store.Client), arrived: map[string]time.Time{}}
	receiver := httptest.NewServer(http.HandlerFunc(t.receive))
	c.stops.Add("receiver", func(context.Context) error { receiver.Close(); return nil })
	// All assets have a price, so that their signals are watched.
	if err := errors.Join(appendTicks(ctx, t.prices, 100, watchedAssets), t.signals.openMany(ctx, t.ids, signals)); err != nil {
		return nil, err
	}
	err = c.registerAll(ctx, receiver.URL, signal.SignalCreated, signal.SignalClosed)
	return t, err
}

// receive is the endpoint of all accounts.
func (t *takeovers) receive(_ http.ResponseWriter, r *http.Request) {
	now := time.Now()
	var event struct{ Type string }
	if json.NewDecoder(r.Body).Decode(&event) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := r.URL.Path + "/" + event.Type
	if t.arrived[key].IsZero() {
		t.arrived[key] = now
	}
}

// forget forgets what has arrived.
func (t *takeovers) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrived = map[string]time.Time{}
}

// await waits until events of a type have arrived for the accounts.
func (t *takeovers) await(ctx context.Context, event signal.EventType, accounts []int) error {
	return until(ctx, watchTimeout, takeoverPoll, func() (bool, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		return !slices.ContainsFunc(accounts, func(i int) bool { return t.at(i, event).IsZero() }), nil
	})
}

func (t *takeovers) at(account int, event signal.EventType) time.Time {
	return t.arrived["/"+strconv.Itoa(account)+"/"+string(event)]
}

// round ends the first node by a signal, adds the times to all, and starts the node again.
func (t *takeovers) round(ctx context.Context, end syscall.Signal, all *takenOver) error {
	accounts := make([]int, len(t.ids))
	for i := range accounts {
		accounts[i] = i
	}
	t.forget()
	if err := errors.Join(t.price(ctx, 100), t.openAll(ctx, 1)); err != nil {
		return err
	}
	if err := t.await(ctx, signal.SignalCreated, accounts); err != nil {
		return fmt.Errorf("wait for the round to begin: %w", err)
	}
	id, err := os.ReadFile(filepath.Join(t.dir, "node0", "node"))
	if err != nil {
		return err
	}
	first := strings.TrimSpace(string(id))
	lost, err := t.ownedBy(ctx, first)
	if err != nil {
		return err
	}
	concerned := slices.DeleteFunc(slices.Clone(accounts), func(i int) bool { return !slices.Contains(lost, t.partition(i)) })
	time.Sleep(time.Second) // until the first node has stored what it has done
	t.forget()
	start, server := time.Now(), t.nodes[0]
	server.cmd.Process.Signal(end)
	var group errgroup.Group
	var exited, taken time.Duration
	group.Go(func() error {
		err := server.cmd.Wait()
		exited = time.Since(start)
		if end == syscall.SIGKILL {
			err = nil
		}
		return err
	})
	group.Go(func() error {
		err := until(ctx, watchTimeout, takeoverPoll, func() (bool, error) {
			left, err := t.ownedBy(ctx, first, "")
			return len(left) == 0, err
		})
		taken = time.Since(start)
		return err
	})
	if err := errors.Join(t.price(ctx, 102), t.openAll(ctx, 5),
		t.await(ctx, signal.SignalCreated, concerned), t.await(ctx, signal.SignalClosed, concerned), group.Wait()); err != nil {
		return err
	}
	all.leases, all.exit = append(all.leases, taken), append(all.exit, exited)
	all.delivered = append(all.delivered, t.firsts(signal.SignalCreated, lost, start)...)
	all.closed = append(all.closed, t.firsts(signal.SignalClosed, lost, start)...)
	return t.restart(ctx, first, len(lost))
}

// firsts returns the time from start to the first arrival of an event of each partition.
func (t *takeovers) firsts(event signal.EventType, partitions []int, start time.Time) []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := map[int]time.Duration{}
	for i := range t.ids {
		if at, p := t.at(i, event), t.partition(i); !at.IsZero() && slices.Contains(partitions, p) {
			if d, known := first[p]; !known || at.Sub(start) < d {
				first[p] = at.Sub(start)
			}
		}
	}
	var taken []time.Duration
	for _, d := range first {
		taken = append(taken, d)
	}
	return taken
}

// restart starts the first node again and waits until it owns as much as before.
func (t *takeovers) restart(ctx context.Context, id string, owns int) (err error) {
	if t.nodes[0], err = t.serveNode(ctx, 0, 0); err != nil {
		return err
	}
	err = until(ctx, watchTimeout, 100*time.Millisecond, func() (bool, error) {
		owned, err := t.ownedBy(ctx, id)
		return len(owned) >= owns, err
	})
	time.Sleep(nodesSettle)
	return err
}

func (t *takeovers) partition(account int) int { return t.store.Client.Partition(t.ids[account]) }

// ownedBy returns the partitions that one of the nodes owns. "" stands for those without an owner.
func (t *takeovers) ownedBy(ctx context.Context, nodes ...string) (owned []int, err error) {
	for p := range t.store.Client.Partitions() {
		owner, _, err := t.store.Logs.Leases.Owner(ctx, p)
		if err != nil {
			return nil, err
		}
		if slices.Contains(nodes, owner) {
			owned = append(owned, p)
		}
	}
	return owned, nil
}

// price moves the asset of the accounts' signals.
func (t *takeovers) price(ctx context.Context, price float64) error {
	return appendTicks(ctx, t.prices, price, 1)
}

// openAll opens a signal of each account around a price of 100, which its levels are a distance from.
func (t *takeovers) openAll(ctx context.Context, distance float64) error {
	for _, account := range t.ids {
		s := t.signals.newSignal(account, watchedAsset(0))
		s.Levels = &signal.Levels{Entry: 100, Stop: 100 - distance, Target: 100 + distance}
		if _, err := t.signals.open(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
