package signals

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Open reads the open signals of partitions.
type Open struct{ *eventlog.Store }

// OpenSignals calls f for each open signal of a partition, in no order, without its metadata and
// with the position of its creation. A signal may come twice. An error of f ends the pass.
// Unreadable entries are logged and skipped.
func (s *Open) OpenSignals(
	ctx context.Context, p int, f func(sig signal.Signal, created signal.Position) error,
) error {
	return s.EachOpen(ctx, p, func(field, value []byte) error {
		open, created, err := codec.DecodeOpen(field, value)
		if err != nil {
			s.Log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", err)
			return nil
		}
		return f(open, created)
	})
}

// CountOpen returns the number of open signals of a partition.
func (s *Open) CountOpen(ctx context.Context, p int) (int, error) {
	n, err := s.RDB.HLen(ctx, s.OpenKey(p)).Result()
	if err != nil {
		return 0, redisclient.Failed(err, "count open signals of partition %d", p)
	}
	return int(n), nil
}

// OpenSignalsOf returns the given signals of a partition that are open, without their metadata.
// Unreadable entries are logged and left out.
func (s *Open) OpenSignalsOf(ctx context.Context, p int, ids []signal.SignalID) ([]signal.Signal, error) {
	var list []signal.Signal
	for len(ids) > 0 {
		chunk := ids[:min(len(ids), eventlog.ScanEntries)]
		ids = ids[len(chunk):]
		fields := make([]string, len(chunk))
		for i, id := range chunk {
			fields[i] = codec.OpenField(id)
		}
		values, err := s.RDB.HMGet(ctx, s.OpenKey(p), fields...).Result()
		if err != nil {
			return nil, redisclient.Failed(err, "read open signals of partition %d", p)
		}
		for i, v := range values {
			value, ok := v.(string)
			if !ok {
				continue
			}
			open, _, err := codec.DecodeOpen([]byte(fields[i]), []byte(value))
			if err != nil {
				s.Log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", err)
				continue
			}
			list = append(list, open)
		}
	}
	return list, nil
}
