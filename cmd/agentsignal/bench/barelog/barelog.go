// Package barelog is the reference of the append benchmark: what a program without
// this service would do with the Redis client. Entries of many callers go into one
// pipeline of XADD. Nothing is conditional, nothing is protected from doubling, and
// errors are not retried.
package barelog

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// header is as long as the routing fields of an event of the log.
var header = string(make([]byte, 100))

// Log appends by group commit: who comes while a pipeline is under way is in the
// next one.
type Log struct {
	client  *redis.Client
	most    int
	payload []byte
	queue   chan entry
	done    chan struct{}
}

type entry struct {
	stream int
	answer chan error
}

// New connects to the Redis at url. Every entry has the payload; at most so many go
// into one pipeline.
func New(url string, most int, payload []byte) (*Log, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("connect to redis: %w", err)
	}
	l := &Log{client: redis.NewClient(o), most: most, payload: payload, queue: make(chan entry, most),
		done: make(chan struct{})}
	go l.run()
	return l, nil
}

// Append adds an entry to the stream of the given number.
func (l *Log) Append(stream int) error {
	e := entry{stream, make(chan error, 1)}
	l.queue <- e
	return <-e.answer
}

// Close ends the log. Append must not be called any more.
func (l *Log) Close() error {
	close(l.queue)
	<-l.done
	return l.client.Close()
}

func (l *Log) run() {
	defer close(l.done)
	ctx := context.Background()
	for e := range l.queue {
		batch := l.gather(e)
		pipe := l.client.Pipeline()
		for _, e := range batch {
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: fmt.Sprintf("bare:%d", e.stream), Values: []any{"h", header, "d", l.payload}})
		}
		_, err := pipe.Exec(ctx)
		for _, e := range batch {
			e.answer <- err
		}
	}
}

// gather returns first and who else waits.
func (l *Log) gather(first entry) []entry {
	batch := []entry{first}
	for len(batch) < l.most {
		select {
		case e, ok := <-l.queue:
			if !ok {
				return batch
			}
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}
