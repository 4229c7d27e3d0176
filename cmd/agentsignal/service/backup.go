package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/backup"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Backups writes and restores backups of the configured Redis.
type Backups struct {
	config configs.Config
	opens  backup.Opens
}

// NewBackups returns the backups of the Redis of c.
func NewBackups(c configs.Config) (*Backups, error) {
	opens, err := secretsOf(c)
	return &Backups{c, opens}, err
}

// Save writes a backup to w, whether or not nodes run. It changes nothing in Redis.
func (b *Backups) Save(ctx context.Context, w io.Writer) (summary backup.Summary, err error) {
	err = openStore(ctx, b.config, redisclient.Existing, false, func(ctx context.Context, store *persistence.Store) error {
		if err := store.Client.Installation.CheckFormats(ctx); err != nil {
			return err
		}
		if err := store.Client.SyncClock(ctx); err != nil {
			return err
		}
		summary, err = backup.Save(ctx, store.Client, w, Version, b.opens)
		return err
	})
	return summary, err
}

// Check reads a backup to its end, and returns what it has. SealedByOthers counts by the configured keys.
func (b *Backups) Check(r io.Reader) (backup.Summary, error) { return backup.Check(r, b.opens) }

// Restore writes the backup in r into Redis, which must be empty. Nothing is written unless all of r is
// valid and the configured keys open the secrets of all webhooks, or lostSecrets allows that they do not.
func (b *Backups) Restore(ctx context.Context, r io.ReadSeeker, lostSecrets bool) (summary backup.Summary, err error) {
	checked, err := b.Check(r)
	if err != nil {
		return checked, err
	}
	if n := checked.SealedByOthers; n > 0 && !lostSecrets {
		return checked, fmt.Errorf("the configured keys do not decrypt the secrets of %d webhooks: put the %s of the service "+
			"that was backed up into %s, or give its security.encryption_keys; with --lost-secrets these "+
			"webhooks are restored, and get no deliveries until their secrets are rotated",
			n, encryptionKeyFile, b.config.DataDir)
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return checked, err
	}
	find := func(_ context.Context, o persistence.Options) (persistence.Options, error) {
		o.Partitions = cmp.Or(b.config.Partitions, checked.Partitions)
		return o, nil
	}
	err = openStore(ctx, b.config, find, true, func(ctx context.Context, store *persistence.Store) error {
		if err := store.Client.SyncClock(ctx); err != nil {
			return err
		}
		if err := backup.Begin(ctx, store.Client); err != nil {
			return err
		}
		summary, err = backup.Load(ctx, store.Client, r)
		return err
	})
	summary.SealedByOthers = checked.SealedByOthers
	return summary, err
}

// secretsOf returns a function that reports whether the configured keys, which need not exist, decrypt a
// secret of a webhook.
func secretsOf(c configs.Config) (backup.Opens, error) {
	keys, err := configs.ParseKeys(string(c.Security.EncryptionKeys))
	if c.Security.EncryptionKeys == "" {
		_, missing := os.Stat(filepath.Join(c.DataDir, encryptionKeyFile))
		if errors.Is(missing, fs.ErrNotExist) {
			return func(signal.WebhookID, []byte) bool { return false }, nil
		}
		keys, err = configs.LoadOrMakeKeys(c.DataDir, encryptionKeyFile)
	}
	if err != nil {
		return nil, fmt.Errorf("security.encryption_keys: %w", err)
	}
	ring, err := keyring.New(keys)
	if err != nil {
		return nil, err
	}
	return func(id signal.WebhookID, sealed []byte) bool {
		_, err := ring.Open(sealed, string(id))
		return err == nil
	}, nil
}
