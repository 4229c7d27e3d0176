package credentials

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Every node may have cached a credential of any account, but reads the event logs of some
// partitions only. So the events of credential changes also go to one short stream, which all
// nodes read.
//
// The outbox cannot serve for that: an event leaves it as soon as it is in its log, which a node may
// never see. And the stream cannot serve as the outbox: it is trimmed by length, whether or not an event
// is in its log, as what a node misses there ends with the second for which it caches a credential.

const (
	// maxEnded is how many events the stream keeps, at least. A node that is further behind
	// misses some, and clears its caches. The connections of those credentials are closed by the
	// log of their account.
	maxEnded = 1000

	minFollowBackoff = 50 * time.Millisecond
	maxFollowBackoff = 2 * time.Second
)

// EndedStream tells all nodes which credentials have ended.
type EndedStream struct{ client }

// Notify makes all nodes that run Follow drop the credentials that events have ended.
func (s *EndedStream) Notify(ctx context.Context, events []signal.Event) error {
	pipe := s.RDB.Pipeline()
	for _, e := range events {
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: s.EndedKey(), MaxLen: maxEnded, Approx: true,
			Values: []string{"e", encodeAnnouncement(e)}})
	}
	return redisclient.Failed(redisclient.Execute(ctx, pipe), "notify nodes of ended credentials")
}

// Follow calls ended with the events that are passed to Notify, by any process, until ctx ends. The
// time of an event is that of its Notify. Whenever events may have been missed, and at the
// beginning, missed is called first.
func (s *EndedStream) Follow(ctx context.Context, ended func([]signal.Event), missed func()) error {
	cursor, failed := "", false
	retries := backoff.Backoff{Min: minFollowBackoff, Max: maxFollowBackoff}
	for ctx.Err() == nil {
		var err error
		if cursor == "" {
			if cursor, err = s.lastEnded(ctx); err == nil {
				missed()
			}
		} else {
			var events []signal.Event
			var full bool
			events, cursor, full, err = s.readEnded(ctx, cursor)
			if full { // the stream may have been trimmed up to them
				missed()
			}
			if len(events) > 0 {
				ended(events)
			}
		}
		if err == nil {
			failed = false
			retries.Reset()
			continue
		}
		if ctx.Err() == nil && !failed {
			s.Log.Debug("ended credentials cannot be followed", "component", "persistence", "err", err)
		}
		// After a failover the stream may have gone back, so it is followed from its new end.
		cursor, failed = "", true
		retries.Wait(ctx)
	}
	return nil
}

// lastEnded returns the id of the newest entry.
func (s *EndedStream) lastEnded(ctx context.Context) (string, error) {
	entries, err := s.RDB.XRevRangeN(ctx, s.EndedKey(), "+", "-", 1).Result()
	if err != nil {
		return "", redisclient.Failed(err, "read the end of ended credentials")
	}
	if len(entries) == 0 {
		return "0-0", nil
	}
	return entries[0].ID, nil
}

// readEnded waits for entries after a cursor, and returns them with the next cursor and whether they are as many as the
// stream keeps.
func (s *EndedStream) readEnded(ctx context.Context, cursor string) (events []signal.Event, next string, full bool, err error) {
	streams, err := s.Blocking.XRead(ctx, &redis.XReadArgs{Streams: []string{s.EndedKey(), cursor},
		Count: maxEnded, Block: redisclient.BlockTimeout}).Result()
	if errors.Is(err, redis.Nil) {
		after, _ := signal.ParsePosition(cursor)
		restarted, err := s.Restarted(ctx, s.EndedKey(), after)
		if restarted {
			err = errors.New("the ids of ended credentials have begun again")
		}
		return nil, cursor, false, err
	}
	if err != nil {
		return nil, cursor, false, redisclient.Failed(err, "read ended credentials")
	}
	for _, m := range streams[0].Messages {
		cursor = m.ID
		text, _ := m.Values["e"].(string)
		e, err := decodeAnnouncement(text)
		position, ok := signal.ParsePosition(m.ID)
		if err != nil || !ok {
			s.Log.Error("an announcement is not readable", "component", "persistence", "at", m.ID, "err", err)
			continue
		}
		e.Position = position
		events = append(events, e)
	}
	return events, cursor, len(streams[0].Messages) == maxEnded, nil
}
