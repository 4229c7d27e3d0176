// Package audits keeps the results of the last audit: a hash for each partition, with the result
// of each of its accounts and the time of the audit.
package audits

import (
	"context"
	"embed"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

//go:embed scripts
var scripts embed.FS

var replaceScript = redisclient.Script(scripts, "replace")

// atField is the field of the time of the audit, in milliseconds. Accounts begin with acc_.
const atField = "at"

// Store reads and writes results.
type Store struct{ *redisclient.Client }

// New returns the results in the Redis of c.
func New(c *redisclient.Client) *Store { return &Store{c} }

// StoreAudits replaces the results of partition p. They are bytes that this package does not read.
// No epoch is compared: a former owner would store the result of an audit that it made as well.
func (s *Store) StoreAudits(ctx context.Context, p int, at time.Time, results map[signal.AccountID][]byte) error {
	values := make([]any, 0, 2+2*len(results))
	values = append(values, atField, at.UnixMilli())
	for account, result := range results {
		values = append(values, string(account), append([]byte{codec.Version}, result...))
	}
	_, err := s.Durable.Change(ctx, s.ConfirmKey(p), replaceScript, []string{s.AuditKey(p)}, values...)
	return redisclient.Failed(err, "store audit of partition %d", p)
}

// Audit returns the time of the last audit, and the result for an account, nil if it had no
// signals. KindNotFound: there was no audit yet.
func (s *Store) Audit(ctx context.Context, account signal.AccountID) (time.Time, []byte, error) {
	return s.read(ctx, s.Partition(account), string(account))
}

// AuditedAt returns the time of the last audit of partition p, or KindNotFound.
func (s *Store) AuditedAt(ctx context.Context, p int) (time.Time, error) {
	at, _, err := s.read(ctx, p, atField)
	return at, err
}

func (s *Store) read(ctx context.Context, p int, field string) (time.Time, []byte, error) {
	values, err := s.RDB.HMGet(ctx, s.AuditKey(p), atField, field).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return time.Time{}, nil, redisclient.Failed(err, "read audit of partition %d", p)
	}
	text, _ := values[0].(string)
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, nil, signal.NotFound("audit")
	}
	at := time.UnixMilli(ms).UTC()
	result, ok := values[1].(string)
	if !ok || result == "" || result[0] != codec.Version {
		return at, nil, nil
	}
	return at, []byte(result[1:]), nil
}
