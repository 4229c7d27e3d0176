package persistence

import (
	"context"
	"fmt"

	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// logStore reads the logs, and has who owns their partitions.
type logStore struct {
	*redisclient.Client
	appended []newest // by partition
}

// newLogStore returns the logs that c reads and writes.
func newLogStore(c *redisclient.Client) *logStore {
	return &logStore{Client: c, appended: make([]newest, c.Partitions())}
}

// scanEntries is how many entries one command of a pass returns: Redis does nothing
// else for a millisecond, and more would not be quicker.
const scanEntries = 1000

// eachOpen calls f for each field of the hash of open signals. Field and value are
// valid until f returns.
func (s *logStore) eachOpen(ctx context.Context, p int, f func(field, value []byte) error) error {
	cursor := "0"
	var buffer redisclient.Buffer
	for {
		reply, err := s.Raw(ctx, s.RDB, &buffer, "HSCAN", redisclient.OpenKey(p), cursor, "COUNT", scanEntries)
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
