package eventlog

import (
	"context"
	"embed"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

//go:embed scripts
var scripts embed.FS

// Store reads the logs and keeps the owners of their partitions.
type Store struct {
	*redisclient.Client
	// Profile is what this process publishes with its announcements. It is set before the first.
	Profile cluster.Profile
	// By partition: the last event that this process has appended, and the last one that
	// replicas are known to have.
	appended, confirmed []newest
}

// New returns the logs that c reads and writes.
func New(c *redisclient.Client) *Store {
	return &Store{Client: c, appended: make([]newest, c.Partitions()), confirmed: make([]newest, c.Partitions())}
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
