package credentials

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// maxUses limits the uses that wait to be stored while the store does not answer.
const maxUses = 100_000

// keyUses collects the last uses of keys until they are stored. The zero value is ready.
type keyUses struct {
	mu      sync.Mutex
	waiting map[credential.Digest]time.Time
}

func minuteOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix() / 60
}

// note records a use, at most once a minute for each key, since lists show minutes.
func (u *keyUses) note(d credential.Digest, last *atomic.Int64, now time.Time) {
	minute := minuteOf(now)
	before := last.Load()
	if minute <= before || !last.CompareAndSwap(before, minute) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waiting == nil {
		u.waiting = map[credential.Digest]time.Time{}
	}
	if len(u.waiting) < maxUses {
		u.waiting[d] = time.Unix(minute*60, 0).UTC()
	}
}

// take returns the uses since the last call.
func (u *keyUses) take() map[credential.Digest]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	uses := u.waiting
	u.waiting = nil
	return uses
}

// putBack returns uses that could not be stored.
func (u *keyUses) putBack(uses map[credential.Digest]time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waiting == nil {
		u.waiting = uses
		return
	}
	for d, at := range uses {
		if len(u.waiting) >= maxUses {
			return
		}
		if u.waiting[d].Before(at) {
			u.waiting[d] = at
		}
	}
}
