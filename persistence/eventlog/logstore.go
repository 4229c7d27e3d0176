package eventlog

import (
	"context"
	"fmt"

	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// Store reads the logs, and has who owns their partitions.
type Store struct {
	*redisclient.Client
	appended []newest // by partition
}

// New returns the logs that c reads and writes.
func New(c *redisclient.Client) *Store {
	return &Store{Client: c, appended: make([]newest, c.Partitions())}
}

// ScanEntries is how many entries one command of a pass returns: Redis does nothing
// else for a millisecond, and more would not be quicker.
const ScanEntries = 1000

// EachOpen calls f for each field of the hash of open signals. Field and value are
// valid until f returns.
func (s *Store) EachOpen(ctx context.Context, p int, f func(field, value []byte) error) error {
	cursor := "0"
	var buffer redisclient.Buffer
	for {
		reply, err := s.Raw(ctx, s.RDB, &buffer, "HSCAN", redisclient.OpenKey(p), cursor, "COUNT", ScanEntries)
		if err != nil {
			return redisclient.Unavailable(fmt.Errorf("read open signals of partition %d: %w", p, err))
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
