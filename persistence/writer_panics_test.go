package persistence

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/redis/go-redis/v9"
)

// panicking panics at the next command, if it shall.
type panicking struct{ next atomic.Bool }

func (l *panicking) Allow() error {
	if l.next.Swap(false) {
		panic("at a batch")
	}
	return nil
}

func (*panicking) ReportResult(error) {}

func TestAWriterThatPanicsFailsItsBatchAndGoesOn(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{Writers: 1})
	faulty := &panicking{}
	b.store.rdb.(*redis.Client).Options().Limiter = faulty
	account := signal.NewAccountID()
	b.append(noted(account, "before"))
	faulty.next.Store(true)
	if _, err := b.log.Append(t.Context(), noted(account, "x")); !errors.Is(err, signal.ErrPanicked) || signal.KindOf(err) != signal.KindInternal {
		t.Errorf("the batch that panicked ends with %v", err)
	}
	b.append(noted(account, "after"))
	if n := len(b.eventsOf(account)); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}
