package storetest

import (
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// Checkpoint returns the first checkpoint of a new record, with what must be stored of its root log.
func Checkpoint(tb testing.TB, at time.Time, logs []tlog.Tree) (*record.Signed, []record.Piece) {
	tb.Helper()
	key, err := record.NewKey("")
	Must(tb, err)
	keys, err := record.ParseKeys(key)
	Must(tb, err)
	c, pieces, err := keys.Sign(&record.Tree{}, verify.Heads{At: at.UTC().Truncate(time.Second), Logs: logs})
	Must(tb, err)
	return c, pieces
}
