package eventlog

import (
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

// followedField is the field of the processes' hash with what a node follows: "UNTIL", a line feed and
// a line "PARTITION EPOCH SINCE REASON..." for each partition, with the epoch and the millisecond of the
// ownership, or zeros. Like the node's own entry, it is removed when it has expired and a node enters.
func followedField(node string) string { return "followed " + node }

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
