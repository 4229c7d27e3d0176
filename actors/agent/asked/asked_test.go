package asked

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	url   = "https://agent.example/"
	limit = 30 * time.Second
)

// expect asks agent once for each code, one after the other.
func (b *bench) expect(agent *signal.Agent, codes ...string) {
	b.t.Helper()
	for i, want := range codes {
		if got := b.ask(agent, limit); got != want {
			b.t.Errorf("question %d ends with %q, want %q", i+1, got, want)
		}
	}
}

// paused checks that a question to agent is refused until d has passed.
func (b *bench) paused(agent *signal.Agent, d time.Duration) {
	b.t.Helper()
	sent := b.sender.count(agent)
	_, _, err := b.Ask(b.t.Context(), signal.NewRunID(), requestOf(agent), nil)
	e, ok := errors.AsType[*signal.Error](err)
	if !ok || e.Kind != signal.KindUnavailable || e.Code != signal.CodeAgentPaused || e.RetryAfter != d ||
		!strings.Contains(e.Message, "status 500") {
		b.t.Errorf("it is refused with %+v, want agent_paused for %v", err, d)
	}
	if got := b.sender.count(agent) - sent; got != 0 {
		b.t.Errorf("%d questions were sent to it", got)
	}
}

const unreachable, timedOut, invalidReply = "AGENT_UNREACHABLE", "AGENT_TIMEOUT", "AGENT_REPLY_INVALID"

// An agent that has failed five times in a row is left alone for 30 s. Then one question at a time tries it, until one succeeds.
func TestPause(t *testing.T) {
	withBench(t, func(t *testing.T, b *bench) {
		a, other := newAgentOf("acc_1", "mine", url), newAgentOf("acc_2", "mine", url+"2")
		b.sender.script(a, fails)
		b.expect(a, unreachable, unreachable, unreachable, unreachable)
		b.sender.script(a, says(`{"signal":null}`))
		if s, reason, err := b.Ask(t.Context(), signal.NewRunID(), requestOf(a), nil); s != nil || reason != "" || err != nil {
			t.Errorf("without a signal: %v, %q, %v", s, reason, err)
		}
		b.sender.script(a, fails)
		b.expect(a, unreachable, unreachable, unreachable, unreachable, unreachable)
		b.paused(a, 30*time.Second)
		b.expect(other, "")
		time.Sleep(12 * time.Second)
		b.paused(a, 18*time.Second)
		if h := b.health(a); h.Failures != 5 || time.Until(h.PausedUntil) != 18*time.Second ||
			h.LastError.Code != signal.AgentUnreachable || time.Since(h.LastErrorAt) != 12*time.Second {
			t.Errorf("its health is %+v", h)
		}
		if n := b.metric("agentsignal_agents_paused", ""); n != 1 {
			t.Errorf("%v agents are paused", n)
		}
		time.Sleep(18 * time.Second)
		b.sender.script(a, after(10*time.Second, fails))
		trial := make(chan string)
		go func() { trial <- b.ask(a, limit) }()
		time.Sleep(time.Second)
		b.paused(a, trialRetry)
		if got := <-trial; got != unreachable {
			t.Errorf("the trial ends with %s", got)
		}
		b.paused(a, 30*time.Second)
		time.Sleep(30 * time.Second)
		b.sender.script(a, nil)
		b.expect(a, "")
		if h := b.health(a); h.Failures != 0 || !h.PausedUntil.IsZero() || h.LastError == nil {
			t.Errorf("its health is %+v", h)
		}
		b.sender.script(a, fails)
		b.expect(a, unreachable, unreachable, unreachable, unreachable, unreachable, signal.CodeAgentPaused)
		a = newAgentOf("acc_1", "mine", url+"moved")
		b.expect(a, "", "")
		for result, want := range map[string]float64{"success": 4, "no_signal": 1, "unreachable": 15, "paused": 5, "timeout": 0} {
			if got := b.metric("agentsignal_agent_asks_total", result); got != want {
				t.Errorf("%v questions are counted as %s, want %v", got, result, want)
			}
		}
		if n := b.metric("agentsignal_agents_paused", ""); n != 0 {
			t.Errorf("%v agents are paused", n)
		}
	})
}

// Of ten agents one hangs: the others answer at once, however many questions it has.
func TestAnAgentThatHangs(t *testing.T) {
	withBench(t, func(t *testing.T, b *bench) {
		account := signal.NewAccountID()
		slow := newAgentOf(account, "hangs", url)
		b.sender.script(slow, hangs)
		begun := time.Now()
		var wait sync.WaitGroup
		codes := make([]string, maxInFlight+maxWaiting+1)
		for i := range codes {
			wait.Go(func() { codes[i] = b.ask(slow, limit+time.Duration(i)*time.Second) })
			synctest.Wait()
		}
		if h := b.health(slow); h.InFlight != maxInFlight || h.Waiting != maxWaiting {
			t.Errorf("its health is %+v", h)
		}
		for i := range 9 {
			for range 20 {
				b.expect(newAgentOf(account, signal.AgentID(fmt.Sprint("agent", i)), url+fmt.Sprint(i)), "")
			}
		}
		if d := time.Since(begun); d != 0 {
			t.Errorf("the other agents took %v", d)
		}
		wait.Wait()
		// Four that timed out were followed by waiting ones. The next failure paused the agent.
		want := slices.Concat(slices.Repeat([]string{timedOut}, 12), slices.Repeat([]string{signal.CodeAgentPaused}, 4),
			[]string{"too_many_runs"})
		if !slices.Equal(codes, want) {
			t.Errorf("they end with %v", codes)
		}
		// The fifth failure began the pause, and later ones of questions in flight did not extend it.
		ends := begun.Add(limit - replyMargin + (maxFailures-1)*time.Second + pauseFor)
		if h := b.health(slow); h.InFlight != 0 || h.Waiting != 0 || !h.PausedUntil.Equal(ends) {
			t.Errorf("its health is %+v, want a pause until %v", h, ends)
		}
		if !slices.Contains(b.sender.slow, false) || slices.Contains(b.sender.slow[:maxInFlight], true) ||
			!b.sender.slow[len(b.sender.slow)-1] {
			t.Errorf("slow were %v", b.sender.slow)
		}
	})
}

// Callers that wait are served in order, and those that leave are dropped.
func TestOrderOfWaiting(t *testing.T) {
	withBench(t, func(t *testing.T, b *bench) {
		a := newAgentOf("acc_1", "mine", url)
		b.sender.script(a, after(10*time.Second, says(`{"direction":"short"}`)))
		var wait sync.WaitGroup
		var mu sync.Mutex
		var order []int
		for i := range maxInFlight + 4 {
			wait.Go(func() {
				left := limit
				if i == maxInFlight+1 {
					left = 5 * time.Second
				}
				code := b.ask(a, left)
				mu.Lock()
				defer mu.Unlock()
				if order = append(order, i); (code != "") != (left < limit) {
					t.Errorf("question %d ends with %q", i, code)
				}
			})
			time.Sleep(time.Millisecond)
		}
		wait.Wait()
		if want := []int{9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
		if h := b.health(a); h.InFlight != 0 || h.Waiting != 0 || h.Failures != 0 {
			t.Errorf("its health is %+v", h)
		}
	})
}

// An answer that comes after the end of its run is dropped, and is no failure of the agent.
func TestTheRunEndsFirst(t *testing.T) {
	withBench(t, func(t *testing.T, b *bench) {
		a := newAgentOf("acc_1", "mine", url)
		b.sender.script(a, fails)
		b.expect(a, unreachable, unreachable)
		b.sender.script(a, after(10*time.Second, fails))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		for range 6 {
			if _, _, err := b.Ask(ctx, signal.NewRunID(), requestOf(a), nil); !errors.Is(err, context.Canceled) {
				t.Errorf("it ends with %v", err)
			}
		}
		if h := b.health(a); h.InFlight != 0 || h.Failures != 2 {
			t.Errorf("its health is %+v", h)
		}
		for result, want := range map[string]float64{"unreachable": 2, "timeout": 0, "success": 0, "no_signal": 0} {
			if got := b.metric("agentsignal_agent_asks_total", result); got != want {
				t.Errorf("%v questions are counted as %s", got, result)
			}
		}
	})
}

// The time limit of a question is that of its run, less what the run needs to report it.
func TestTimeLimit(t *testing.T) {
	withBench(t, func(t *testing.T, b *bench) {
		a, begun := newAgentOf("acc_1", "mine", url), time.Now()
		b.sender.script(a, hangs)
		b.expect(a, timedOut)
		if d := time.Since(begun); d != limit-replyMargin || b.sender.sent[0].Timeout != d {
			t.Errorf("it was given up after %v, by the sender after %v", d, b.sender.sent[0].Timeout)
		}
	})
}

// An agent whose last answer took long is asked by the slots for slow ones.
func TestSlowAgents(t *testing.T) {
	withBench(t, func(t *testing.T, b *bench) {
		a := newAgentOf("acc_1", "mine", url)
		for _, d := range []time.Duration{2, 0, 2, 2} {
			b.sender.script(a, after(d*time.Second, says(`{"signal":null}`)))
			b.Ask(t.Context(), signal.NewRunID(), requestOf(a), nil)
		}
		b.sender.script(a, after(2*time.Second, fails))
		b.expect(a, unreachable, unreachable)
		if want := []bool{false, true, false, true, true, true}; !slices.Equal(b.sender.slow, want) {
			t.Errorf("slow are %v, want %v", b.sender.slow, want)
		}
	})
}

// What becomes of questions to a former endpoint says nothing about the present one.
func TestAnEndpointMoves(t *testing.T) {
	withBench(t, func(t *testing.T, b *bench) {
		old, moved := newAgentOf("acc_1", "mine", url), newAgentOf("acc_1", "mine", url+"moved")
		b.sender.script(old, after(10*time.Second, fails))
		var wait sync.WaitGroup
		for range maxFailures {
			wait.Go(func() { b.expect(old, unreachable) })
		}
		synctest.Wait()
		b.expect(moved, "")
		wait.Wait()
		b.expect(moved, "")
		if h := b.health(moved); h.Failures != 0 || h.LastError != nil {
			t.Errorf("its health is %+v", h)
		}
	})
}

// A reader that panics leaves nothing in flight.
func TestReadPanics(t *testing.T) {
	withBench(t, func(t *testing.T, b *bench) {
		a := newAgentOf("acc_1", "mine", url)
		b.o.Read = func([]byte, *signal.RunRequest) (*signal.Submission, error) { panic("odd") }
		func() {
			defer func() { recover() }()
			b.ask(a, limit)
			t.Error("the panic is lost")
		}()
		if h := b.health(a); h.InFlight != 0 {
			t.Errorf("its health is %+v", h)
		}
	})
}

// The actor of an agent ends when it is not asked for hours, and starts again.
func TestIdleAgents(t *testing.T) {
	withBench(t, func(t *testing.T, b *bench) {
		a := newAgentOf("acc_1", "mine", url)
		running := func(want float64) {
			t.Helper()
			synctest.Wait()
			if got := b.metric("agentsignal_actor_running", "agent"); got != want {
				t.Errorf("%v actors run, want %v", got, want)
			}
		}
		b.sender.script(a, fails)
		for range 5 {
			b.expect(a, unreachable)
			time.Sleep(time.Hour) // as for each bar of an hour
			running(1)
		}
		b.expect(a, unreachable, signal.CodeAgentPaused)
		time.Sleep(2*idleAfter + time.Second)
		running(0)
		if h := b.health(a); h != (Health{}) {
			t.Errorf("its health is %+v", h)
		}
		if n := b.metric("agentsignal_agents_paused", ""); n != 0 {
			t.Errorf("%v agents are paused", n)
		}
		b.expect(a, unreachable)
		running(1)
	})
}

// An actor that panics refuses those who wait, and loses no question in flight.
func TestAnActorRestarts(t *testing.T) {
	withBench(t, func(t *testing.T, b *bench) {
		a := newAgentOf("acc_1", "mine", url)
		b.sender.script(a, after(10*time.Second, says(`{"direction":"short"}`)))
		var wait sync.WaitGroup
		for i := range maxInFlight + 1 {
			wait.Go(func() {
				want := ""
				if i == maxInFlight {
					want = "unavailable"
				}
				if got := b.ask(a, limit); got != want {
					t.Errorf("question %d ends with %q", i, got)
				}
			})
			synctest.Wait()
		}
		b.node.Tell(forAgent{keyOf(a), wanted{}})
		wait.Wait()
		b.expect(a, "")
	})
}
