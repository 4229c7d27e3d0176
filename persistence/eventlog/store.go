package eventlog

import (
	"context"
	"embed"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

//go:embed scripts
var scripts embed.FS

// Store reads the logs.
type Store struct {
	*redisclient.Client
	Leases    *Leases
	Positions *Positions
	Nodes     *Nodes
	// By partition: the last event that this process has appended, and the last one that
	// replicas are known to have.
	appended, confirmed []newest
}

// New returns the logs that c reads and writes.
func New(c *redisclient.Client) *Store {
	return &Store{Client: c, Leases: &Leases{c}, Positions: &Positions{c}, Nodes: &Nodes{client: c},
		appended: make([]newest, c.Partitions()), confirmed: make([]newest, c.Partitions())}
}

// ScanEntries is how many entries one command of a scan returns. It takes Redis a
// millisecond; more at once would not be faster.
const ScanEntries = 1000

// EachOpen calls f for each field of the hash of open signals. Field and value are
// valid until f returns.
func (s *Store) EachOpen(ctx context.Context, p int, f func(field, value []byte) error) error {
	cursor := "0"
	var buffer redisclient.Buffer
	for {
		reply, err := s.Raw(ctx, s.RDB, &buffer, "HSCAN", s.OpenKey(p), cursor, "COUNT", ScanEntries)
		if err != nil {
			return redisclient.Failed(err, "read open signals of partition %d", p)
		}
		r := redisclient.NewReplyReader(reply)
		if r.Array() != 2 {
			r.Fail()
		}
		cursor = string(r.Text())
		for n := r.Array() / 2; n > 0 && r.Err == nil; n-- {
			field, value := r.Text(), r.Text()
			if r.Err != nil {
				break
			}
			if err := f(field, value); err != nil {
				return err
			}
		}
		if r.Err != nil {
			return fmt.Errorf("read open signals of partition %d: %w", p, r.Err)
		}
		if cursor == "0" {
			return nil
		}
	}
}

// replayEntries is how many events one command reads.
const replayEntries = 1000

// Retains reports whether all entries after a position of an event log are still stored,
// except for those of deleted accounts. It is false if that is unknown.
func (s *Store) Retains(ctx context.Context, p int, after signal.Position) (bool, redisclient.StreamInfo, error) {
	info, err := s.ReadInfo(ctx, s.EventsKey(p))
	switch {
	case err != nil:
		return false, info, redisclient.Unavailable(err)
	case !info.Exists:
		return after.IsZero(), info, nil
	case info.Complete && info.Generated.Compare(after) <= 0:
		return info.Generated == after, info, nil
	case after.IsZero():
		return info.Complete && info.Added == info.Length, info, nil
	}
	// Trimming removes the oldest entries first: while the entry itself is there, or an
	// older one, nothing after it was trimmed.
	at := after.String()
	entries, err := s.ReadRange(ctx, s.EventsKey(p), at, at, 1)
	if err != nil {
		return false, info, redisclient.Unavailable(err)
	}
	if len(entries) == 1 {
		return true, info, nil
	}
	// The entry may have been deleted by itself, with its account.
	older := info.Length > 0 && info.First.Compare(after) < 0
	return older && info.Complete && info.MaxDeleted.Compare(after) >= 0, info, nil
}

// ReadLog returns at most limit events of all accounts of a partition after a position, in
// their order. The result is empty at the end of the log. KindUnavailable: also if replicas that
// Options.WaitReplicas demands lack them.
func (s *Store) ReadLog(ctx context.Context, p int, after signal.Position, limit int) ([]signal.Event, error) {
	events := make([]signal.Event, 0, min(limit, replayEntries))
	for len(events) < limit {
		count := min(limit-len(events), replayEntries)
		entries, err := s.readConfirmed(ctx, p, "("+after.String(), count)
		if err != nil {
			return nil, redisclient.Unavailable(err)
		}
		for i := range entries {
			if e, ok := s.event(p, &entries[i]); ok {
				events = append(events, e)
			}
		}
		if len(entries) < count {
			break
		}
		after = entries[len(entries)-1].Position
	}
	return events, nil
}

// event decodes an entry of the event log. It logs one that is not readable.
func (s *Store) event(p int, e *redisclient.Entry) (signal.Event, bool) {
	event, err := codec.DecodeEvent(e.Position, e.Header, e.Body)
	if err != nil {
		s.Log.Error("an event is not readable", "component", "persistence", "partition", p, "err", err)
		return event, false
	}
	return event, true
}

// LastEvent returns the position of the newest event, or zero.
func (s *Store) LastEvent(ctx context.Context, p int) (signal.Position, error) {
	ends := map[int]signal.Position{p: {}}
	err := s.lastEventsAfter(ctx, ends)
	return ends[p], err
}

// lastEventsAfter replaces positions, by partition, with those of the newest events, where events follow. The entries at
// the positions are not read.
func (s *Store) lastEventsAfter(ctx context.Context, ends map[int]signal.Position) error {
	commands, partitions := make([][]any, 0, len(ends)), make([]int, 0, len(ends))
	for p, after := range ends {
		commands = append(commands, []any{"XREVRANGE", s.EventsKey(p), "+", "(" + after.String(), "COUNT", 1})
		partitions = append(partitions, p)
	}
	replies, err := s.RawAll(ctx, s.RDB, commands)
	if err != nil {
		return redisclient.Failed(err, "read the ends of event logs")
	}
	for i, p := range partitions {
		r := redisclient.NewReplyReader(replies[i])
		entries, err := r.Entries(nil)
		if err != nil {
			return fmt.Errorf("read the end of event log %d: %w", p, err)
		}
		if len(entries) > 0 {
			ends[p] = entries[0].Position
		}
	}
	return nil
}
