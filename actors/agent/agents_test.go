package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestAdmission(t *testing.T) {
	withBench(t, Options{MaxConcurrent: 3}, func(t *testing.T, b *bench) {
		b.slow(time.Second)
		var runs sync.WaitGroup
		for range 3 {
			runs.Go(func() {
				if _, err := b.run(); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Millisecond)
		req := request("BTC")
		req.Agent, req.Strategy = "weather", "agriculture" // the limit is for all agents together
		_, err := b.agents.Run(t.Context(), req)
		e, ok := errors.AsType[*signal.Error](err)
		if !ok || e.Kind != signal.KindTooMany || e.Code != "too_many_runs" || e.RetryAfter != time.Second {
			t.Errorf("fourth run: %v, want too_many_runs", err)
		}
		req.Account = "acc_2"
		if _, err := b.agents.Run(t.Context(), req); codeOf(err) != signal.DataUnavailable {
			t.Errorf("another account's run: %v, want DATA_UNAVAILABLE", err)
		}
		runs.Wait()
		if _, err := b.run(); err != nil {
			t.Errorf("after the others ended: %v", err)
		}
	})
}

// TestOpenSignalsAreBounded checks that an account at its limit gets no run and no job that
// makes a signal. Scans make none.
func TestOpenSignalsAreBounded(t *testing.T) {
	open := map[signal.AccountID]int{"acc_2": 8}
	o := Options{MaxOpen: 9, Open: func(a signal.AccountID) int { return open[a] }}
	withBench(t, o, func(t *testing.T, b *bench) {
		req := request("BTC")
		open[req.Account] = 9
		_, err := b.agents.Run(t.Context(), req)
		want := &signal.Error{Kind: signal.KindTooMany, Code: "too_many_signals", RetryAfter: time.Minute,
			Message: "the account has 9 open signals, which is as many as it may have: wait until some have closed"}
		if d := cmp.Diff(error(want), err); d != "" {
			t.Errorf("a run: %s", d)
		}
		if _, err := b.agents.Submit(t.Context(), req, nil); signal.CodeOf(err) != "too_many_signals" {
			t.Errorf("a job: %v", err)
		}
		if _, err := b.agents.SubmitScan(t.Context(), req, []string{"BTC"}); err != nil {
			t.Errorf("a scan: %v", err)
		}
		req.Account = "acc_2"
		if _, err := b.agents.Run(t.Context(), req); err != nil {
			t.Errorf("another account's run: %v", err)
		}
		if _, err := b.agents.Submit(t.Context(), req, nil); err != nil {
			t.Errorf("another account's job: %v", err)
		}
	})
}

// TestSteadyClientsAreNotRefused checks that clients that wait for their answers never reach
// the limit if there are no more of them.
func TestSteadyClientsAreNotRefused(t *testing.T) {
	withBench(t, Options{MaxConcurrent: 8}, func(t *testing.T, b *bench) {
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for range 50 {
					if _, err := b.run(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		clients.Wait()
	})
}

func TestWorkersAreBounded(t *testing.T) {
	withBench(t, Options{MaxConcurrent: 100, Workers: 2}, func(t *testing.T, b *bench) {
		b.slow(time.Second)
		var mu sync.Mutex
		results := map[signal.Kind]int{}
		var runs sync.WaitGroup
		begun := time.Now()
		for range 5 {
			runs.Go(func() {
				_, err := b.run()
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					results[signal.KindInternal]++ // stands for success
				} else {
					results[signal.KindOf(err)]++
				}
			})
		}
		runs.Wait()
		want := map[signal.Kind]int{signal.KindInternal: 4, signal.KindTooMany: 1}
		if diff := cmp.Diff(want, results); diff != "" {
			t.Error("two run, two wait, one is refused (-want +got):\n" + diff)
		}
		if d := time.Since(begun); d != 2*time.Second {
			t.Errorf("took %v, want 2s", d)
		}
		if _, err := b.run(); err != nil {
			t.Error(err)
		}
	})
}

func TestUnknownAgents(t *testing.T) {
	o := Options{Disabled: []signal.AgentID{"seo"}}
	withBench(t, o, func(t *testing.T, b *bench) {
		for _, id := range []signal.AgentID{"seo", "none", ""} {
			req := request("BTC")
			req.Agent = id
			if _, err := b.agents.Run(t.Context(), req); signal.KindOf(err) != signal.KindNotFound {
				t.Errorf("agent %q: %v, want not found", id, err)
			}
			if _, err := b.agents.Submit(t.Context(), req, nil); signal.KindOf(err) != signal.KindNotFound {
				t.Errorf("job of agent %q: %v, want not found", id, err)
			}
		}
		req := request("BTC")
		req.Strategy = "blog_post"
		if _, err := b.agents.Run(t.Context(), req); signal.KindOf(err) != signal.KindInvalid {
			t.Errorf("foreign strategy: %v, want invalid", err)
		}
		var got []string
		for _, a := range b.agents.Catalogue() {
			got = append(got, string(a.ID)+" "+string(a.Status))
		}
		if diff := cmp.Diff([]string{"trading active", "weather active"}, got); diff != "" {
			t.Error("catalogue (-want +got):\n" + diff)
		}
	})
}

func TestDrain(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		b.slow(20 * time.Second)
		answers := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := b.agents.Run(context.Background(), request("BTC"))
				answers <- err
			}()
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		drained := make(chan error)
		go func() { drained <- b.agents.Drain(ctx) }()
		time.Sleep(time.Second)
		_, err := b.run()
		if signal.KindOf(err) != signal.KindUnavailable || !strings.HasPrefix(err.Error(), "this node is about to stop") {
			t.Errorf("a run while draining: %v, want unavailable, because the node stops", err)
		}
		if err := <-drained; err != nil {
			t.Errorf("drain: %v", err)
		}
		if d := time.Since(begun); d != 5*time.Second {
			t.Errorf("drained after %v, want 5s", d)
		}
		for range 2 {
			if err := <-answers; codeOf(err) != signal.Cancelled {
				t.Errorf("run ended with %v, want CANCELLED", err)
			}
		}
		b.expect(startedOnly, startedOnly, failedEnd, failedEnd)
	})
}

func TestStartAndStopFromManyGoroutines(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		var callers sync.WaitGroup
		for i := range 40 {
			callers.Go(func() {
				if i%10 == 9 {
					if err := b.agents.Drain(t.Context()); err != nil {
						t.Error(err)
					}
					return
				}
				req := request("BTC")
				req.Account = signal.AccountID(fmt.Sprint("acc_", i))
				_, err := b.agents.Run(t.Context(), req)
				if err != nil && signal.KindOf(err) != signal.KindUnavailable {
					t.Error(err)
				}
			})
		}
		callers.Wait()
	})
}

// TestStoppedAgent checks that a stopped agent leaves no caller waiting.
func TestStoppedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Workers: 1})
		b.slow(10 * time.Second)
		answers := make(chan error, 2)
		for range 2 { // one runs, one waits
			go func() {
				_, err := b.agents.Run(context.Background(), request("BTC"))
				answers <- err
			}()
		}
		time.Sleep(time.Second)
		must(t, b.sys.Shutdown(t.Context()))
		if _, err := b.run(); signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("run on a stopped agent: %v, want unavailable", err)
		}
		failed := 0
		for range 2 {
			if err := <-answers; signal.KindOf(err) == signal.KindUnavailable && err != nil {
				failed++
			} else if err != nil {
				t.Error(err)
			}
		}
		if failed != 1 {
			t.Errorf("%d runs were refused, want the one that waited", failed)
		}
		if err := b.agents.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
