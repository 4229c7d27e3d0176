package cluster

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// keyedRuns are runs of the first node, each with an Idempotency-Key.
type keyedRuns struct {
	e2e.Nodes
	keys []string
	runs sync.WaitGroup
}

func run(c *e2e.Client, key string) (e2e.Answer, error) {
	return c.Try(http.MethodPost, "/v1/agents/trading/run", e2e.RunBody("ACME", "momentum"), "Idempotency-Key: "+key)
}

// pause starts runs, and pauses the first node once one of them is answered and others are under way.
func (k *keyedRuns) pause() {
	const runs = 50
	answered := make(chan struct{}, runs)
	for i := range runs {
		key := fmt.Sprint("run ", i)
		k.keys = append(k.keys, key)
		k.runs.Go(func() {
			_, _ = run(k.Here, key) // it may fail with the node
			answered <- struct{}{}
		})
	}
	<-answered
	k.First.Signal(syscall.SIGSTOP)
}

// repeat repeats each run at the other node until it is answered, and returns the signals.
func (k *keyedRuns) repeat(tb testing.TB) map[string]string {
	tb.Helper()
	made := map[string]string{}
	for _, key := range k.keys {
		e2e.Eventually(tb, key+" is answered", func() bool {
			a, err := run(k.There, key)
			e2e.Must(tb, err)
			switch a.Status {
			case http.StatusOK:
				made[key] = e2e.Decode[e2e.WireSignal](tb, a.Body).ID
			case http.StatusServiceUnavailable:
			default:
				a.Fails(tb, "idempotency_in_progress")
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
	if total := k.There.Signals("").Total - before; total != len(k.keys) {
		tb.Errorf("%d signals were made by %d runs", total, len(k.keys))
	}
}

func TestRunsOfAKilledNodeAreRepeatedOnce(t *testing.T) {
	t.Parallel()
	k := keyedRuns{Nodes: e2e.StartNodes(t, "stream")}
	before := k.There.Signals("").Total
	k.pause()
	k.First.Kill()
	k.checkOnce(t, before, k.repeat(t))
	k.runs.Wait()
}

// A node that is paused for longer than its lease goes on with runs that were repeated meanwhile.
func TestRunsOfAPausedNodeAreMadeOnce(t *testing.T) {
	t.Parallel()
	k := keyedRuns{Nodes: e2e.StartNodes(t, "stream")}
	before := k.There.Signals("").Total
	k.pause()
	made := k.repeat(t)
	k.First.Signal(syscall.SIGCONT)
	k.runs.Wait()
	k.checkOnce(t, before, made)
	for key, id := range made {
		a, err := run(k.There, key)
		e2e.Must(t, err)
		if got := e2e.Decode[e2e.WireSignal](t, a.Ok(t).Body).ID; got != id {
			t.Errorf("%s is answered with %s, and was with %s", key, got, id)
		}
	}
}
