package checkpoints

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// audience fakes the webhooks of a partition and its event log.
type audience struct {
	mu       sync.Mutex
	webhooks map[signal.AccountID][]delivery.Webhook
	reads    int
	failing  error // of appends to the log of account b
	got      []string
}

func (a *audience) AccountsWithWebhooks(context.Context, int) (list []signal.AccountID, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads++
	for account := range a.webhooks {
		list = append(list, account)
	}
	return list, nil
}

func (a *audience) Webhooks(_ context.Context, account signal.AccountID) ([]delivery.Webhook, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.webhooks[account], nil
}

func (a *audience) Append(_ context.Context, c signal.Change) (signal.Position, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Account == "b" && a.failing != nil {
		return signal.Position{}, a.failing
	}
	e := c.Events[0]
	if c.Epoch != 7 || e.Type != signal.LogCheckpoint || e.ID == "" || !strings.Contains(string(e.Data), `"leaves":`) {
		return signal.Position{}, errors.New("not a fenced checkpoint")
	}
	a.got = append(a.got, string(c.Account))
	return signal.Position{}, nil
}

// set changes the webhooks of an account, and reports it.
func (a *audience) set(w *harness, account signal.AccountID, list ...delivery.Webhook) {
	a.mu.Lock()
	a.webhooks[account] = list
	a.mu.Unlock()
	w.follower.Follow([]signal.Event{{Type: signal.WebhookChanged}})
	synctest.Wait()
}

// take returns who got a checkpoint since the last call.
func (a *audience) take() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.got
	a.got = nil
	slices.Sort(got)
	return got
}

func TestCheckpointsArePublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &audience{webhooks: map[signal.AccountID][]delivery.Webhook{}}
		w := newHarnessOf(t, 0, a)
		hook := func(status delivery.WebhookStatus, events ...signal.EventType) delivery.Webhook {
			return delivery.Webhook{Status: status, Events: events}
		}
		want := func(when string, want ...string) {
			t.Helper()
			if got := a.take(); !slices.Equal(got, want) {
				t.Errorf("%s, %v get a checkpoint, want %v", when, got, want)
			}
		}
		a.set(w, "a", hook(delivery.WebhookEnabled, signal.SignalCreated))
		a.set(w, "b", hook(delivery.WebhookDisabled, signal.LogCheckpoint))
		reads := a.reads
		time.Sleep(10 * time.Minute)
		want("without subscribers")
		if a.reads != reads {
			t.Errorf("without subscribers webhooks were read %d times", a.reads-reads)
		}
		a.set(w, "a", hook(delivery.WebhookEnabled, signal.SignalCreated), hook(delivery.WebhookEnabled, signal.LogCheckpoint))
		want("once it subscribes", "a")
		time.Sleep(30 * time.Second)
		a.set(w, "b", hook(delivery.WebhookEnabled, signal.LogCheckpoint))
		got := a.take()
		time.Sleep(5 * time.Minute)
		got = append(got, a.take()...)
		slices.Sort(got)
		if n, m := countOf(got, "a"), countOf(got, "b"); n < 4 || n > 6 || m < 4 || m > 7 {
			t.Errorf("within five minutes a gets %d, and b %d", n, m)
		}
		w.add(5000)
		time.Sleep(20 * time.Second)
		_ = a.take() // perhaps that of the minute
		w.add(5000)
		time.Sleep(20 * time.Second)
		if got := a.take(); countOf(got, "a") > 1 {
			t.Errorf("many leaves publish %v", got)
		}
		a.mu.Lock()
		a.failing = errors.New("away")
		a.mu.Unlock()
		time.Sleep(3 * time.Minute)
		if n := countOf(a.take(), "a"); n < 2 || n > 4 {
			t.Errorf("while the other log fails, a gets %d in three minutes", n)
		}
		a.mu.Lock()
		a.failing = nil
		a.mu.Unlock()
		time.Sleep(5 * time.Second)
		if got := a.take(); countOf(got, "b") != 1 {
			t.Errorf("after the failure %v get a checkpoint", got)
		}
		a.set(w, "a")
		a.set(w, "b")
		_ = a.take()
		time.Sleep(5 * time.Minute)
		want("without webhooks")
	})
}

func countOf(list []string, name string) (n int) {
	for _, item := range list {
		if item == name {
			n++
		}
	}
	return n
}
