package dashboard

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// frameOverhead estimates the memory that a frame takes in addition to its bytes.
const frameOverhead = 300

// backfill caches an account's part of the event log: everything from its first
// frame up to upTo. Requests for one account wait for each other, so that equal
// ones share a read and a longer one reads only the missing part.
type backfill struct {
	turn    chan struct{} // a lock: holds a value while a resume uses the frames
	users   int           // guarded by resumer.mu
	expiry  *time.Timer   // guarded by resumer.mu
	frames  []*frame
	upTo    signal.Position
	anchor  signal.Position // the last event read, of any account
	entries int             // entries of the log read for it
	bytes   int             // of its frames; guarded by resumer.mu
}

// take returns the account's backfill, creating it if needed; release must follow.
func (r *resumer) take(account signal.AccountID) *backfill {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.backfills[account]
	if b == nil {
		b = &backfill{turn: make(chan struct{}, 1)}
		r.backfills[account] = b
	}
	b.users++
	if b.expiry != nil {
		b.expiry.Stop()
		b.expiry = nil
	}
	return b
}

// release ends one use of b, which is dropped a minute after its last use.
func (r *resumer) release(account signal.AccountID, b *backfill) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.users--; b.users > 0 {
		return
	}
	b.expiry = time.AfterFunc(keepRead, func() {
		panics.Guard(r.logger, panics.Dashboard, func() { r.expire(account, b) }, "account", string(account))
	})
}

// expire drops b, unless it is in use again.
func (r *resumer) expire(account signal.AccountID, b *backfill) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.users == 0 && r.backfills[account] == b {
		r.drop(account, b)
	}
}

// drop removes a backfill that is not in use. The caller holds r.mu.
func (r *resumer) drop(account signal.AccountID, b *backfill) {
	b.expiry.Stop()
	delete(r.backfills, account)
	r.held -= b.bytes
}

// hold reserves memory for bytes read into b, and reports whether the limit for all
// accounts together allows it. It drops unused backfills to make room.
func (r *resumer) hold(b *backfill, bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for account, other := range r.backfills {
		if r.held+bytes <= r.bytes {
			break
		}
		if other.users == 0 {
			r.drop(account, other)
		}
	}
	if r.held+bytes > r.bytes {
		return false
	}
	r.held += bytes
	b.bytes += bytes
	return true
}

// empty drops the frames of b. The caller holds b.turn.
func (r *resumer) empty(b *backfill) {
	b.frames, b.upTo, b.anchor, b.entries = nil, signal.Position{}, signal.Position{}, 0
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= b.bytes
	b.bytes = 0
}

// close drops all backfills.
func (r *resumer) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.backfills {
		if b.expiry != nil {
			b.expiry.Stop()
		}
	}
	clear(r.backfills)
	r.held = 0
}
