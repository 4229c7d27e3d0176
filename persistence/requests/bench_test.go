package requests

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/signals"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// bench is the requests of a Redis of its own, with the log that stores replies.
type bench struct {
	server *redistest.Server
	store  *Store
	logs   *eventlog.Store
	log    *eventlog.Log
	rdb    *redis.Client
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server := redistest.New(t)
	return openBench(t, server, redisclient.Options{URL: server.URL(), Partitions: 4})
}

func openBench(t *testing.T, server *redistest.Server, o redisclient.Options) *bench {
	t.Helper()
	c := storetest.Client(t, o)
	logs := eventlog.New(c)
	log := storetest.Closing(t, eventlog.NewLog(logs, eventlog.LogOptions{}))
	return &bench{server, New(c, signals.New(logs)), logs, log, server.Client()}
}

func (b *bench) replyKey(account signal.AccountID, k *signal.ReplyKey) string {
	return b.store.ReplyKey(b.store.Partition(account), account, codec.ReplyDigest(k))
}
