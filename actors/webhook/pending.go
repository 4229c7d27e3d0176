package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// At most Options.MaxPending deliveries of an account are pending. Beyond that, a new
// delivery gets its first attempt if it can be sent at once. It is dropped instead of being
// stored as pending, and not retried after a failure. The account is notified.

// pendings counts pending deliveries, and notifies accounts of dropped ones.
type pendings interface {
	// PendingDeliveries returns the number of pending deliveries of each account.
	PendingDeliveries(ctx context.Context, partition int, accounts []signal.AccountID) ([]int, error)
	// Notify appends an event to the log. It returns KindConflict with code "not_owner" if
	// another node owns the partition.
	Notify(ctx context.Context, epoch int64, e signal.Event) error
}

const (
	// recount is the minimum time between two counts of an account with too many pending
	// deliveries. Others are counted every recountAll, because manual retries are not
	// counted here.
	recount    = time.Second
	recountAll = time.Minute
	// dropNotice is the minimum time between two notifications of an account.
	dropNotice = time.Hour
	// maxCounts is the number of accounts above which old counts are dropped.
	maxCounts = 10_000
)

// counts counts the pending deliveries of a partition by account. It is safe for concurrent
// use.
type counts struct {
	o        *owned
	mu       sync.Mutex
	of       map[signal.AccountID]*count
	unread   map[signal.AccountID]struct{} // must be read
	dropping map[signal.AccountID]int      // deliveries dropped since the last notification
}

// count is the count of an account.
type count struct {
	n       int       // as read, plus those stored since
	read    time.Time // zero if never
	noticed time.Time // when the account was last notified
}

func newCounts(o *owned) *counts {
	return &counts{
		o:        o,
		of:       map[signal.AccountID]*count{},
		unread:   map[signal.AccountID]struct{}{},
		dropping: map[signal.AccountID]int{},
	}
}

// reserve adds up to n pending deliveries to the count of an account, and returns how many the
// limit allows: all of them if the account was not counted yet.
func (k *counts) reserve(a signal.AccountID, n int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.lookUp(a, n)
	if !c.read.IsZero() {
		n = max(0, min(n, k.o.options.MaxPending-c.n))
	}
	c.n += n
	return n
}

// lookUp returns the count of an account, and requests a new one if n more might exceed the
// limit. The caller holds k.mu.
func (k *counts) lookUp(a signal.AccountID, n int) *count {
	c := k.of[a]
	if c == nil {
		c = &count{}
		k.of[a] = c
	}
	if age := time.Since(c.read); age >= recountAll || c.n+n > k.o.options.MaxPending && age >= recount {
		k.unread[a] = struct{}{}
	}
	return c
}

// drop records that n deliveries of an account were dropped.
func (k *counts) drop(a signal.AccountID, n int) {
	k.o.options.Metrics.drops.Add(float64(n))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropping[a] += n
}

// allow counts deliveries that are about to be stored, and returns how many of each account
// the limit allows.
func (k *counts) allow(ctx context.Context, of map[signal.AccountID]int) (map[signal.AccountID]int, error) {
	k.mu.Lock()
	for a, n := range of {
		k.lookUp(a, n)
	}
	k.mu.Unlock()
	if err := k.read(ctx, k.toRead()); err != nil {
		return nil, err
	}
	allowed := make(map[signal.AccountID]int, len(of))
	for a, n := range of {
		allowed[a] = k.reserve(a, n)
	}
	return allowed, nil
}

// toRead returns the accounts that must be counted.
func (k *counts) toRead() []signal.AccountID {
	k.mu.Lock()
	defer k.mu.Unlock()
	accounts := slices.Collect(maps.Keys(k.unread))
	clear(k.unread)
	return accounts
}

// read counts the pending deliveries of accounts. After an error they are counted when they
// are next needed.
func (k *counts) read(ctx context.Context, accounts []signal.AccountID) error {
	if len(accounts) == 0 {
		return nil
	}
	pending, err := k.o.store.PendingDeliveries(ctx, k.o.Partition, accounts)
	if err != nil {
		return fmt.Errorf("count pending deliveries: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, a := range accounts {
		if c := k.of[a]; c != nil {
			c.n, c.read = pending[i], time.Now()
		}
	}
	if len(k.of) > maxCounts {
		maps.DeleteFunc(k.of, func(_ signal.AccountID, c *count) bool {
			return time.Since(c.read) >= recount && time.Since(c.noticed) >= dropNotice
		})
	}
	return nil
}

// notices returns the accounts that must be notified, with their dropped deliveries.
func (k *counts) notices() map[signal.AccountID]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	var due map[signal.AccountID]int
	for a, n := range k.dropping {
		if c := k.lookUp(a, 0); time.Since(c.noticed) >= dropNotice {
			if due == nil {
				due = map[signal.AccountID]int{}
			}
			due[a], c.noticed = n, time.Now()
			delete(k.dropping, a)
		}
	}
	return due
}

// notify notifies accounts of dropped deliveries.
func (k *counts) notify(ctx context.Context, due map[signal.AccountID]int) {
	for a, n := range due {
		limit := k.o.options.MaxPending
		k.o.log.Warn("deliveries are dropped", "account", string(a), "deliveries", n, "max_pending", limit)
		data := droppedNotice(n, limit)
		e := signal.Event{ID: signal.NewEventID(), Account: a, Type: signal.SystemNotification, Data: data}
		if err := k.o.store.Notify(ctx, k.o.Epoch, e); err != nil && !k.o.Refused(err) {
			k.o.log.Warn("an account is not notified of dropped deliveries", "account", string(a), "err", err)
			k.mu.Lock()
			k.dropping[a] += n
			k.lookUp(a, 0).noticed = time.Now().Add(recount - dropNotice)
			k.mu.Unlock()
		}
	}
}

// droppedNotice returns the payload of the notification that n deliveries were dropped.
func droppedNotice(n, limit int) []byte {
	b := signal.AppendText([]byte(`{"message":`), fmt.Sprintf("Webhook deliveries were dropped (%d so far): %d are "+
		"pending, which is the most that an account may have. Repair or disable the webhooks that fail, or "+
		"cancel what is pending.", n, limit))
	return append(b, `,"severity":"warning","code":"deliveries_dropped"}`...)
}

// refresh reads the requested counts and sends due notifications, without waiting.
func (k *counts) refresh(c engine.Context) {
	unread, due := k.toRead(), k.notices()
	if len(unread) == 0 && len(due) == 0 {
		return
	}
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		if err := k.read(ctx, unread); err != nil {
			k.o.log.Debug("pending deliveries are not counted", "err", err)
		}
		k.notify(ctx, due)
		return nil
	})
}
