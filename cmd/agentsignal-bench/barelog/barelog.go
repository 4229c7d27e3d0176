// Package barelog is the reference of the append benchmark: it appends the entries of many
// callers with the Redis client, in one pipeline of XADD. Appends have no conditions and no
// protection from duplicates, and errors are not retried.
package barelog

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// header is as long as the routing fields of an event in the event log.
var header = string(make([]byte, 100))

// Log appends by group commit: entries that arrive during a pipeline are in the next one.
type Log struct {
	client  *redis.Client
	max     int // entries of a pipeline
	payload []byte
	queue   chan entry
	done    chan struct{}
}

type entry struct {
	stream int
	answer chan error
}

// New returns a log on the Redis at url. Every entry has the payload; a pipeline has at most
// max entries.
func New(url string, max int, payload []byte) (*Log, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("connect to redis: %w", err)
	}
	l := &Log{redis.NewClient(o), max, payload, make(chan entry, max), make(chan struct{})}
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
			stream := fmt.Sprintf("bare:%d", e.stream)
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: stream, Values: []any{"h", header, "d", l.payload}})
		}
		_, err := pipe.Exec(ctx)
		for _, e := range batch {
			e.answer <- err
		}
	}
}

// gather returns first and the entries that wait.
func (l *Log) gather(first entry) []entry {
	batch := []entry{first}
	for len(batch) < l.max {
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
