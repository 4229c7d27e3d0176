package signals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// recentClosing is how far back SignalByID searches for a closing that is not announced yet.
const recentClosing = time.Minute

// Records reads single signals with their current state.
type Records struct{ passes }

// SignalByID returns a signal with its current state. created and closed are its positions in
// the catalogue; a zero closed means that it was open there, although it may be closed by now.
// KindNotFound: the account has no such signal, or no longer.
func (s *Records) SignalByID(
	ctx context.Context, account signal.AccountID, id signal.SignalID, created, closed signal.Position,
) (*signal.Signal, error) {
	p := s.Partition(account)
	record, err := s.Record(ctx, p, created)
	if err != nil {
		return nil, err
	}
	if record.ID != id || record.Account != account {
		return nil, signal.NotFound("signal")
	}
	if closed.IsZero() {
		value, err := s.RDB.HGet(ctx, s.OpenKey(p), codec.OpenField(id)).Bytes()
		if err == nil {
			open, _, err := codec.DecodeOpen([]byte(codec.OpenField(id)), value)
			if err != nil {
				return nil, err
			}
			state, _ := codec.DecodeOpenState(value)
			state.Apply(record)
			record.Updates, record.ExitRequested = open.Updates, open.ExitRequested
			return record, nil
		}
		if !errors.Is(err, redis.Nil) {
			return nil, redisclient.Failed(err, "read open signal %s", id)
		}
		return s.recentlyClosed(ctx, p, record)
	}
	entries, err := s.ReadRange(ctx, s.SignalsKey(p), closed.String(), closed.String(), 1)
	if err != nil {
		return nil, redisclient.Unavailable(err)
	}
	if len(entries) == 0 {
		return nil, signal.NotFound("signal")
	}
	return closeRecord(record, &entries[0])
}

// recentlyClosed returns record with its closing, which is newer than the catalogue.
func (s *Records) recentlyClosed(ctx context.Context, p int, record *signal.Signal) (*signal.Signal, error) {
	unclosed := map[signal.SignalID]*signal.Signal{record.ID: record}
	if err := s.closeRecently(ctx, p, unclosed); err != nil {
		return nil, err
	}
	if len(unclosed) > 0 {
		return nil, signal.NotFound("signal")
	}
	return record, nil
}

// closeRecently adds their closings to records, which are newer than the catalogue, and removes
// from records those that have one. It reads the log backwards once for all.
func (s *Records) closeRecently(ctx context.Context, p int, records map[signal.SignalID]*signal.Signal) error {
	if len(records) == 0 {
		return nil
	}
	oldest := s.Now().UnixMilli()
	for _, record := range records {
		oldest = min(oldest, record.CreatedAt.UnixMilli())
	}
	oldest = max(oldest, s.Now().Add(-recentClosing).UnixMilli())
	end := "+"
	for {
		reply, err := s.Raw(ctx, s.RDB, nil, "XREVRANGE", s.SignalsKey(p), end, oldest, "COUNT", 500)
		if err != nil {
			return redisclient.Failed(err, "search for closings")
		}
		r := redisclient.NewReplyReader(reply)
		entries, err := r.Entries(nil)
		if err != nil {
			return fmt.Errorf("search for closings: %w", err)
		}
		if len(entries) == 0 {
			return nil
		}
		for i := range entries {
			if !codec.IsClosing(entries[i].Header) {
				continue
			}
			var c codec.ClosedState
			codec.DecodeClosedHead(entries[i].Header, &c)
			record := records[c.ID]
			if record == nil {
				continue
			}
			if _, err := closeRecord(record, &entries[i]); err != nil {
				return err
			}
			if delete(records, c.ID); len(records) == 0 {
				return nil
			}
		}
		end = "(" + entries[len(entries)-1].Position.String()
	}
}

// Record returns the signal created at a position, as it was then.
func (s *Records) Record(ctx context.Context, p int, created signal.Position) (*signal.Signal, error) {
	entries, err := s.ReadRange(ctx, s.SignalsKey(p), created.String(), created.String(), 1)
	if err != nil {
		return nil, redisclient.Unavailable(err)
	}
	if len(entries) == 0 {
		return nil, signal.NotFound("signal")
	}
	return codec.DecodeRecord(created, entries[0].Header, entries[0].Body)
}

// closeRecord adds the entry of its closing to record.
func closeRecord(record *signal.Signal, e *redisclient.Entry) (*signal.Signal, error) {
	c, err := codec.DecodeClosed(e.Position, e.Header)
	if err != nil {
		return nil, err
	}
	if c.ID != record.ID || c.Account != record.Account {
		return nil, signal.NotFound("signal")
	}
	c.Updated = e.Position
	c.Apply(record)
	record.Closing, record.Updates = &c.Closing, c.Updates
	more, err := codec.UnpackMetadata(e.Body)
	if err == nil {
		record.Metadata, err = mergeMetadata(record.Metadata, more)
	}
	if err != nil {
		return nil, fmt.Errorf("decode closing of %s: %w", record.ID, err)
	}
	return record, nil
}

// mergeMetadata returns the object base with the members of more, which is empty for most
// closings.
func mergeMetadata(base json.RawMessage, more []byte) (json.RawMessage, error) {
	if len(more) == 0 {
		return base, nil
	}
	members := map[string]json.RawMessage{}
	for _, object := range [][]byte{base, more} {
		if len(object) > 0 {
			if err := json.Unmarshal(object, &members); err != nil {
				return nil, fmt.Errorf("decode metadata: %w", err)
			}
		}
	}
	return json.Marshal(members)
}
