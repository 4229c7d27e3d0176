package service

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/codec"
)

// keyedRuns are runs of the first node, each with an Idempotency-Key.
type keyedRuns struct {
	nodes
	keys []string
	runs sync.WaitGroup
}

// locks returns how many of the keys are locked.
func (k *keyedRuns) locks(tb testing.TB) (locked int) {
	tb.Helper()
	client := k.second.process.store.Client
	rdb, pattern := k.redis.Client(), client.ReplyKey(client.Partition(k.account.ID), k.account.ID, "*")
	names, err := rdb.Keys(tb.Context(), pattern).Result()
	must(tb, err)
	for _, name := range names {
		if r, _, err := codec.DecodeReply([]byte(rdb.Get(tb.Context(), name).Val())); err == nil && r.Status == 0 {
			locked++
		}
	}
	return locked
}

func run(c *client, key string) (answer, error) {
	return c.try(http.MethodPost, "/v1/agents/trading/run", runBody("ACME", "momentum"), "Idempotency-Key: "+key)
}

// pause starts runs, and pauses the first node while some are under way.
func (k *keyedRuns) pause(tb testing.TB) {
	tb.Helper()
	eventually(tb, "the paused node holds locks", func() bool {
		k.first.signal(syscall.SIGCONT)
		for range 10 {
			key := fmt.Sprint("run ", len(k.keys))
			k.keys = append(k.keys, key)
			k.runs.Go(func() { _, _ = run(k.here, key) }) // it may fail with the node
		}
		if k.locks(tb) == 0 {
			return false
		}
		k.first.signal(syscall.SIGSTOP)
		return k.locks(tb) > 0
	})
}

// repeat repeats each run at the other node until it is answered, and returns the signals.
func (k *keyedRuns) repeat(tb testing.TB) map[string]string {
	tb.Helper()
	made := map[string]string{}
	for _, key := range k.keys {
		eventually(tb, key+" is answered", func() bool {
			a, err := run(k.there, key)
			must(tb, err)
			switch a.Status {
			case http.StatusOK:
				made[key] = decode[wireSignal](tb, a.Body).ID
			case http.StatusServiceUnavailable:
			default:
				a.fails(tb, "idempotency_in_progress")
			}
			return a.Status == http.StatusOK
		})
	}
	return made
}

// checkOnce fails the test unless there is one signal for each key, beside those that were there before.
func (k *keyedRuns) checkOnce(tb testing.TB, before int, made map[string]string) {
	tb.Helper()
	ids := map[string]bool{}
	for _, id := range made {
		ids[id] = true
	}
	if len(ids) != len(k.keys) {
		tb.Errorf("%d runs have %d signals", len(k.keys), len(ids))
	}
	if total := k.there.signals("").Total - before; total != len(k.keys) {
		tb.Errorf("%d signals were made by %d runs", total, len(k.keys))
	}
}

func TestRunsOfAKilledNodeAreRepeatedOnce(t *testing.T) {
	t.Parallel()
	k := keyedRuns{nodes: startNodes(t, "stream")}
	before := k.there.signals("").Total
	k.pause(t)
	k.first.kill()
	k.checkOnce(t, before, k.repeat(t))
	k.runs.Wait()
}

// A node that is paused for longer than its lease goes on with runs that were repeated meanwhile.
func TestRunsOfAPausedNodeAreMadeOnce(t *testing.T) {
	t.Parallel()
	k := keyedRuns{nodes: startNodes(t, "stream")}
	before := k.there.signals("").Total
	k.pause(t)
	made := k.repeat(t)
	k.first.signal(syscall.SIGCONT)
	k.runs.Wait()
	k.checkOnce(t, before, made)
	for key, id := range made {
		a, err := run(k.there, key)
		must(t, err)
		if got := decode[wireSignal](t, a.ok(t).Body).ID; got != id {
			t.Errorf("%s is answered with %s, and was with %s", key, got, id)
		}
	}
}
