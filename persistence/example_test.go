package persistence_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/datadir"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// A change is appended with all of its events or not at all, and its owner reads it back
// from the log of its partition.
func Example_append() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "agentsignal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	options := datadir.EmbeddedOptions{Dir: dir, Log: slog.New(slog.DiscardHandler)}
	server, err := datadir.StartEmbedded(ctx, options)
	if err != nil {
		panic(err)
	}
	defer server.Stop(ctx)
	store, err := persistence.Open(persistence.Options{URL: server.URL(), Timeout: time.Minute})
	if err != nil {
		panic(err)
	}
	defer store.Client.Close()
	if err := store.Client.Readiness.Check(ctx); err != nil {
		panic(err)
	}
	log := eventlog.NewLog(store.Logs, eventlog.LogOptions{})
	defer log.Close(ctx)

	account := signal.NewAccountID()
	position, err := log.Append(ctx, signal.Change{Account: account, Events: []signal.Event{{
		ID:      signal.NewEventID(),
		Account: account,
		Type:    signal.SystemNotification,
		Data:    []byte(`{"message":"Maintenance at noon.","severity":"info"}`),
	}}})
	if err != nil {
		panic(err)
	}
	events, err := store.Logs.ReadLog(ctx, store.Client.Partition(account), signal.Position{}, 10)
	if err != nil {
		panic(err)
	}
	for _, e := range events {
		fmt.Println(e.Type, string(e.Data), e.Position == position)
	}
	// Output: system.notification {"message":"Maintenance at noon.","severity":"info"} true
}
