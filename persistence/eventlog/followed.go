package eventlog

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Followed returns the partitions whose events are read, with the names of the reasons, by number.
func (t *Tail) Followed() []cluster.Followed {
	var list []cluster.Followed
	now := t.clock()
	for i := range t.partitions {
		part := &t.partitions[i]
		part.mu.Lock()
		f := cluster.Followed{Partition: i}
		for r := range reasons {
			if part.attached && part.has(r, now, t.idle) {
				f.Reasons = append(f.Reasons, reasonNames[r])
			}
		}
		part.mu.Unlock()
		if len(f.Reasons) > 0 {
			list = append(list, f)
		}
	}
	return list
}

// followedField is the field of the processes' hash with what a node follows: "UNTIL", a line feed and
// a line "PARTITION EPOCH SINCE REASON..." for each partition, with the epoch and the millisecond of the
// ownership, or zeros. Like the node's own entry, it is removed when it has expired and a node enters.
func followedField(node string) string { return "followed " + node }

// PublishFollowed records for ttl what node follows, for Followed.
func (s *Store) PublishFollowed(ctx context.Context, node string, list []cluster.Followed, ttl time.Duration) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", s.Now().Add(ttl).UnixMilli())
	for _, f := range list {
		since := int64(0)
		if f.Epoch != 0 {
			since = f.Since.UnixMilli()
		}
		fmt.Fprintf(&b, "%d %d %d %s\n", f.Partition, f.Epoch, since, strings.Join(f.Reasons, " "))
	}
	err := s.RDB.HSet(ctx, s.ProcessesKey(), followedField(node), b.String()).Err()
	return redisclient.Failed(err, "publish followed partitions")
}

// decodeFollowed is the inverse of what PublishFollowed records. It returns nil for a record that is
// missing or has expired, and an empty list for a node that follows nothing.
func decodeFollowed(record string, now time.Time) []cluster.Followed {
	until, rest, _ := strings.Cut(record, "\n")
	if ms, err := strconv.ParseInt(until, 10, 64); err != nil || ms <= now.UnixMilli() {
		return nil
	}
	list := []cluster.Followed{}
	for line := range strings.Lines(rest) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		partition, err := strconv.Atoi(words[0])
		epoch, err2 := strconv.ParseInt(words[1], 10, 64)
		since, err3 := strconv.ParseInt(words[2], 10, 64)
		if err != nil || err2 != nil || err3 != nil {
			continue
		}
		f := cluster.Followed{Partition: partition, Epoch: epoch, Reasons: words[3:]}
		if epoch != 0 {
			f.Since = time.UnixMilli(since).UTC()
		}
		list = append(list, f)
	}
	return list
}
