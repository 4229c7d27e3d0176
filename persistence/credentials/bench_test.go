package credentials

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// Short names of helpers that nearly every test uses.
var (
	nowMS, wantError    = storetest.Now, storetest.WantError
	addAccount, addKey  = storetest.AddAccount, storetest.AddKey
	addSession, nextOf  = storetest.AddSession, storetest.NextSession
	outboxOf, wantEqual = storetest.Outbox, storetest.WantEqual
)

// openStore returns a store whose client is closed when the test ends.
func openStore(t *testing.T, o redisclient.Options) *Store {
	t.Helper()
	return New(storetest.Client(t, o))
}

// credentialStore returns a store on a Redis of its own.
func credentialStore(t *testing.T) (*Store, *redistest.Server) {
	t.Helper()
	server := redistest.New(t)
	return openStore(t, redisclient.Options{URL: server.URL()}), server
}
