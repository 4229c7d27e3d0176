package credentials

import (
	"context"
	"embed"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

//go:embed scripts
var scripts embed.FS

// Store has all that is kept of credentials, for who authenticates and changes them.
type Store struct {
	client
	*AccountStore
	*KeyStore
	*ReaderStore
	*SessionStore
	*LockStore
	*PublicationStore
	*Outbox
	*EndedStream
}

// New returns the credentials that c reads and writes.
func New(c *redisclient.Client) *Store {
	own := client{c}
	keys, readers, sessions, outbox := &KeyStore{own}, &ReaderStore{own}, &SessionStore{own}, &Outbox{own}
	accounts := &AccountStore{own, keys, readers, sessions, outbox}
	return &Store{own, accounts, keys, readers, sessions, &LockStore{own},
		&PublicationStore{own}, outbox, &EndedStream{own}}
}

// client runs scripts that change credentials.
type client struct{ *redisclient.Client }

// apply runs a script that changes credentials, and waits for the replicas.
func (c client) apply(ctx context.Context, script *redisclient.Lua, keys []string, args ...any) (*redis.Cmd, error) {
	return c.Durable.Change(ctx, c.ConfirmAuthKey(), script, keys, args...)
}

// end runs a script that ends credentials. It does so even while replicas are missing.
func (c client) end(ctx context.Context, script *redisclient.Lua, keys []string, args ...any) (*redis.Cmd, error) {
	return c.Durable.End(ctx, c.ConfirmAuthKey(), script, keys, args...)
}
