package signal

import "time"

// Scope is a right that a credential may carry.
type Scope string

// The scopes.
const (
	AgentsRead     Scope = "agents:read"
	AgentsRun      Scope = "agents:run"
	SignalsRead    Scope = "signals:read"
	WebhooksManage Scope = "webhooks:manage"
)

// Scopes lists all of them in the order of the specification.
var Scopes = []Scope{AgentsRead, AgentsRun, SignalsRead, WebhooksManage}

// ScopeSet is a set of scopes; bit i stands for Scopes[i]. The zero value is empty.
type ScopeSet uint8

// ReaderScopes holds the scopes that a reader may have.
const ReaderScopes ScopeSet = 1<<0 | 1<<2 // AgentsRead and SignalsRead

// AllScopes holds every scope.
const AllScopes ScopeSet = 1<<4 - 1

// ScopesOf returns the set of the given scopes, without those that do not exist.
func ScopesOf(scopes ...Scope) ScopeSet {
	var set ScopeSet
	for _, s := range scopes {
		set |= s.bit()
	}
	return set
}

func (s Scope) bit() ScopeSet {
	for i, known := range Scopes {
		if s == known {
			return 1 << i
		}
	}
	return 0
}

// Has reports whether scope is in the set.
func (set ScopeSet) Has(scope Scope) bool { return set&scope.bit() != 0 }

// List returns the scopes of the set in the order of the specification.
func (set ScopeSet) List() []Scope {
	list := []Scope{}
	for _, s := range Scopes {
		if set.Has(s) {
			list = append(list, s)
		}
	}
	return list
}

// Principal is an authenticated account, by an API key or a session.
type Principal struct {
	Account   AccountID
	Key       KeyID     // of an API key; else empty
	Session   SessionID // of an access token; else empty
	Scopes    ScopeSet
	ExpiresAt time.Time // of the credential, or zero
	// View is what a reader sees, whose key has one; nil for others. MaxConnections is how many streams a reader may have at
	// once, over all nodes.
	View           *View
	MaxConnections int
}
