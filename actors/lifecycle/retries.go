package lifecycle

import (
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// retryLogEvery is the least time between two log lines about changes that are not
// stored: when Redis is away, every signal of a partition has one.
const retryLogEvery = time.Minute

// retries logs changes of a partition's signals that have to be appended again: the
// first at once, and then how many there were each retryLogEvery.
type retries struct {
	mu      sync.Mutex
	next    time.Time // of a line
	skipped int       // since the last one
}

func (r *retries) log(log *slog.Logger, id signal.SignalID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped++
	if now := time.Now(); !now.Before(r.next) {
		log.Warn("change of a signal is not stored and will be tried again", "signal", string(id),
			"times", r.skipped, "err", err)
		r.next, r.skipped = now.Add(retryLogEvery), 0
	}
}
