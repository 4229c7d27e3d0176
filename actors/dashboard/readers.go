package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// ErrTooManyConnections refuses a connection of a reader that has as many as it may have.
var ErrTooManyConnections = &signal.Error{Kind: signal.KindTooMany, Code: "too_many_connections",
	Message: "the reader has as many connections as it may have: close one of them first", RetryAfter: elsewhereLag}

const (
	// elsewhereLag is how long a connection of another node may count after its end.
	elsewhereLag = 2 * time.Second
	// elsewhereLimit is how long the numbers of other nodes are waited for.
	elsewhereLimit = 500 * time.Millisecond
)

// OtherNodes shares the numbers of readers' connections with other nodes.
type OtherNodes interface {
	// Share records how many connections a reader has on this node. It does not block.
	Share(key signal.KeyID, connections int)
	// Elsewhere returns how many connections readers have on other nodes, as far as they have some.
	Elsewhere(ctx context.Context, keys ...signal.KeyID) (map[signal.KeyID]int, error)
}

// readers counts the connections of readers. Its methods are safe for concurrent use.
type readers struct {
	others  OtherNodes // nil on a single node
	metrics *Metrics

	mu     sync.Mutex
	counts map[signal.KeyID]int // here
}

func newReaders(o *Options) *readers {
	return &readers{others: o.OtherNodes, metrics: o.Metrics, counts: make(map[signal.KeyID]int)}
}

// enter counts one more connection of the reader p until leave. ErrTooManyConnections: it has as many as it may have.
func (r *readers) enter(ctx context.Context, p *signal.Principal) error {
	number := r.add(p.Key, +1)
	if number <= p.MaxConnections && r.others != nil {
		ctx, cancel := context.WithTimeout(ctx, elsewhereLimit)
		defer cancel()
		elsewhere, _ := r.others.Elsewhere(ctx, p.Key) // without an answer those of this node count
		number += elsewhere[p.Key]
	}
	if number > p.MaxConnections {
		r.leave(p.Key)
		r.metrics.refusedReader(refusedByLimit)
		return ErrTooManyConnections
	}
	return nil
}

// leave ends what enter has begun.
func (r *readers) leave(key signal.KeyID) { r.add(key, -1) }

// add changes the number of a reader's connections, and returns it.
func (r *readers) add(key signal.KeyID, n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	number := r.counts[key] + n
	if number == 0 {
		delete(r.counts, key)
	} else {
		r.counts[key] = number
	}
	if r.others != nil {
		r.others.Share(key, number)
	}
	r.metrics.readers(n)
	return number
}

// everywhere returns how many connections readers have on all nodes, as far as they have some.
func (r *readers) everywhere(ctx context.Context, keys []signal.KeyID) (map[signal.KeyID]int, error) {
	all := make(map[signal.KeyID]int)
	if r.others != nil {
		elsewhere, err := r.others.Elsewhere(ctx, keys...)
		if err != nil {
			return nil, err
		}
		all = elsewhere
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		if n := r.counts[key]; n > 0 {
			all[key] += n
		}
	}
	return all, nil
}

// errEnded ends the admission of a connection that has ended meanwhile.
var errEnded = errors.New("the connection has ended")
