package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/datadir"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// readyTimeout limits how long a command waits for Redis.
const readyTimeout = 10 * time.Second

// WithStore runs f with the Redis of c, whether or not a service is running. Without
// redis.url it uses the server of the running service or starts one for f; the data
// directory must exist.
func WithStore(ctx context.Context, c configs.Config, f func(context.Context, *persistence.Store) error) error {
	return openStore(ctx, c, redisclient.Installed, false, installed(f))
}

// WithCredentials is WithStore with the accounts and keys of the store.
func WithCredentials(ctx context.Context, c configs.Config, f func(context.Context, *credentials.Service) error) error {
	return openStore(ctx, c, redisclient.Installed, false, installed(onCredentials(f)))
}

// WithNewCredentials is WithCredentials for a command that may be the first of an installation. It
// creates the data directory if necessary. KindUnavailable: replicas may lack the record of the
// installation, without which accounts are not found.
func WithNewCredentials(ctx context.Context, c configs.Config, f func(context.Context, *credentials.Service) error) error {
	use := onCredentials(f)
	return openStore(ctx, c, redisclient.Installed, true,
		installed(func(ctx context.Context, store *persistence.Store) error {
			if err := store.Client.Installation.Confirm(ctx); err != nil {
				return err
			}
			return use(ctx, store)
		}))
}

// openStore runs f with the Redis of c and the installation that find returns. first allows it to
// create the data directory.
func openStore(
	ctx context.Context, c configs.Config, find func(context.Context, persistence.Options) (persistence.Options, error),
	first bool, f func(context.Context, *persistence.Store) error,
) (err error) {
	var stops command.Stops
	defer func() { err = errors.Join(err, stops.Run(context.WithoutCancel(ctx))) }()
	url := string(c.Redis.URL)
	if url == "" {
		if _, err := os.Stat(c.DataDir); !first && errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no data directory %s: give that of the service by --data-dir or "+
				"AGENTSIGNAL_DATA_DIR, or its redis.url", absolute(c.DataDir))
		}
		embedded, err := datadir.StartEmbedded(ctx, datadir.EmbeddedOptions{
			Dir:       c.DataDir,
			Share:     true,
			MaxMemory: int64(c.Redis.MaxMemory),
			Log:       slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		stops.Add("redis", embedded.Stop)
		sayDir(os.Stderr, embedded)
		url = embedded.URL()
	}
	ready, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	o, err := find(ready, StoreOptions(c, url))
	if err != nil {
		return forOperator(err)
	}
	store, err := persistence.Open(o)
	if err != nil {
		return err
	}
	stops.Add("connection", func(context.Context) error { return store.Client.Close() })
	return forOperator(f(ctx, store))
}

// forOperator words the error of a command that could not use Redis for people who can change the settings. It
// returns all others as they are.
func forOperator(err error) error {
	e, ok := errors.AsType[*signal.Error](err)
	if !ok || e.Kind != signal.KindUnavailable || e.Cause == nil {
		return err
	}
	worded := *e
	if worded.Message, _ = redisclient.Refusal(err); worded.Message == "" {
		worded.Message = "redis cannot be reached: start it, or correct the setting redis.url"
	}
	return &worded
}

// absolute returns dir as an absolute path for people to read, or as it is if it has none.
func absolute(dir string) string {
	if path, err := filepath.Abs(dir); err == nil {
		return path
	}
	return dir
}

// StoreOptions returns the options of a connection to the Redis at url: that of c, or of a child.
func StoreOptions(c configs.Config, url string) persistence.Options {
	return persistence.Options{
		URL:          url,
		CAFile:       c.Redis.CAFile,
		Partitions:   c.Partitions,
		WaitReplicas: c.Redis.WaitReplicas,

		AcceptWithoutReplicas: c.Redis.WithoutReplicas == configs.AcceptWithoutReplicas,
	}
}

// sayDir writes to w which data directory a command uses.
func sayDir(w io.Writer, e *datadir.Embedded) {
	if e.New() {
		fmt.Fprintf(w, "agentsignal: the data directory %s is new and empty: if the service has another one, give that by "+
			"--data-dir or AGENTSIGNAL_DATA_DIR\n", e.Dir())
		return
	}
	fmt.Fprintf(w, "agentsignal: uses the data directory %s\n", e.Dir())
}

// installed returns a function that runs f when the installation is the configured one.
func installed(f func(context.Context, *persistence.Store) error) func(context.Context, *persistence.Store) error {
	return func(ctx context.Context, store *persistence.Store) error {
		ready, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		if err := store.Client.Installation.Install(ready); err != nil {
			return err
		}
		if err := store.Client.SyncClock(ready); err != nil {
			return err
		}
		return f(ctx, store)
	}
}

// onCredentials returns a function that runs f with the accounts and keys of a store.
func onCredentials(
	f func(context.Context, *credentials.Service) error,
) func(context.Context, *persistence.Store) error {
	return func(ctx context.Context, store *persistence.Store) (err error) {
		log := eventlog.NewLog(store.Logs, eventlog.LogOptions{})
		defer func() { err = errors.Join(err, log.Close(context.WithoutCancel(ctx))) }()
		audit := newLogger(os.Stderr, configs.Log{Level: "info", Format: "auto"}, new(slog.LevelVar))
		o := credentials.Options{Now: store.Client.Now, Log: audit}
		return f(ctx, credentials.New(store.Credentials, log, nil, o))
	}
}
