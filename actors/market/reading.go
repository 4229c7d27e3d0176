package market

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
)

const (
	// readBlock is how long a read waits for entries.
	readBlock = time.Second
	// readRetry is the pause after a failed read.
	readRetry = 250 * time.Millisecond
	// readHalt is the age of the last read at which the process was halted, or Redis is slow: a read, and
	// the one before it, may wait readBlock.
	readHalt = 3 * readBlock
	// readSettle is how long after such a gap the actors of assets may still have to take up what was read.
	readSettle = time.Second
)

// reading records up to when a stream is read. Its methods but follow are safe for concurrent use.
type reading struct {
	// The wall clock in nanoseconds: a process that was halted notices it only by the time.
	begun  atomic.Int64 // when the last read that found the end of the stream began; 0 if the last one failed
	gapEnd atomic.Int64 // when the first such read after a gap ended
}

// follow calls read, which reads what a stream has since its last call, until ctx ends. more reports that there may
// be more at once.
func (r *reading) follow(
	ctx context.Context, log *slog.Logger, stream string, read func(context.Context) (more bool, err error),
) {
	defer r.failed()
	failed := false
	for ctx.Err() == nil {
		more, err, begun := false, panics.ErrPanicked, time.Now()
		panics.Guard(log, panics.Market, func() { more, err = read(ctx) }, "stream", stream)
		switch {
		case err != nil:
			r.failed()
		case !more:
			r.ended(begun)
		}
		switch {
		case err == nil && failed:
			log.Info("market stream is read again", "stream", stream)
		case err != nil && ctx.Err() == nil:
			if !failed {
				log.Warn("market stream cannot be read", "stream", stream, "err", err)
			}
			backoff.Sleep(ctx, readRetry)
		}
		failed = err != nil
	}
}

// ended notes a read that began at a time and found the end of the stream.
func (r *reading) ended(begun time.Time) {
	if begun.UnixNano()-r.begun.Load() > int64(readHalt) {
		r.gapEnd.Store(time.Now().UnixNano())
	}
	r.begun.Store(begun.UnixNano())
}

func (r *reading) failed() { r.begun.Store(0) }

// current reports whether the stream is read: what actors have not got yet is not in it.
func (r *reading) current() bool {
	now := time.Now().UnixNano()
	return now-r.begun.Load() <= int64(readHalt) && now-r.gapEnd.Load() >= int64(readSettle)
}
