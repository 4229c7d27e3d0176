package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// source is the installation that is copied.
type source struct {
	*redisclient.Client
	logs    *eventlog.Store
	w       *writer
	opens   Opens
	summary Summary
	cuts    []cut // by partition

	saved map[string]bool // webhooks and schedules, by account and identifier
}

// Save writes a backup of the installation of c to w, while its nodes run. See the package comment for
// what it has. opens may be nil. build is the version of this program.
func Save(ctx context.Context, c *redisclient.Client, w io.Writer, build string, opens Opens) (Summary, error) {
	out, err := newWriter(w)
	if err != nil {
		return Summary{}, err
	}
	s := &source{Client: c, logs: eventlog.New(c), w: out, opens: opens, cuts: make([]cut, c.Partitions()),
		saved:   map[string]bool{},
		summary: Summary{CreatedAt: c.Now().Truncate(time.Second), Build: build, Partitions: c.Partitions()}}
	text, err := json.Marshal(header{s.summary.CreatedAt, build, c.Partitions(), codec.Version})
	if err != nil {
		return Summary{}, err
	}
	err = s.add(kindHeader, text)
	for _, section := range sections() {
		if err == nil {
			err = section.save(ctx, s)
		}
	}
	if _, ours := errors.AsType[contentError](err); ours {
		return Summary{}, err
	}
	if err != nil {
		return Summary{}, redisclient.Failed(err, "back up")
	}
	return s.summary, out.close()
}

// contentError is an error that is not one of Redis: the file cannot be written, or Redis has what no backup can have.
type contentError struct{ error }

// Unwrap returns the error itself.
func (e contentError) Unwrap() error { return e.error }

// add writes a record with the fields that fieldsOf makes of values.
func (s *source) add(k kind, values ...any) error {
	s.summary.count(k)
	if err := s.w.add(k, fieldsOf(values...)); err != nil {
		return contentError{fmt.Errorf("write the backup: %w", err)}
	}
	return nil
}

// addHash writes a record for each field of a hash, behind the first values.
func (s *source) addHash(k kind, hash map[string]string, first ...any) error {
	for field, value := range hash {
		if err := s.add(k, append(first[:len(first):len(first)], field, value)...); err != nil {
			return err
		}
	}
	return nil
}

// unsaved returns the webhooks or schedules of a list that are not saved yet, and counts them as saved from then on.
func (s *source) unsaved(account signal.AccountID, list map[string]string) map[string]string {
	left := map[string]string{}
	for id, record := range list {
		key := string(account) + " " + id
		if !s.saved[key] {
			left[id] = record
		}
		s.saved[key] = true
	}
	return left
}

// addSortedSet adds records with the members and scores of a sorted set, behind the first values.
func (s *source) addSortedSet(ctx context.Context, key string, k kind, first ...any) error {
	all, err := s.RDB.ZRangeWithScores(ctx, key, 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(all, scanCount) {
		values := slices.Clone(first)
		for _, z := range group {
			values = append(values, member(z), z.Score)
		}
		if err := s.add(k, values...); err != nil {
			return err
		}
	}
	return nil
}

func member(z redis.Z) string { m, _ := z.Member.(string); return m }

// noKey is the answer to PEXPIRETIME for a key that does not exist.
const noKey = time.Duration(-2)

// untilMS returns when a key expires; 0 if it does not.
func untilMS(until *redis.DurationCmd) int64 { return max(0, until.Val().Milliseconds()) }
