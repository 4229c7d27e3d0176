package credentials

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// Defaults of the options, after the API decisions.
const (
	defaultName        = "agentsignal"
	defaultAccessTTL   = 15 * time.Minute
	defaultRefreshTTL  = 30 * 24 * time.Hour
	defaultSessionTTL  = 90 * 24 * time.Hour
	defaultLockAfter   = 5
	defaultLockWindow  = 15 * time.Minute
	defaultLock        = 15 * time.Minute
	defaultMaxSessions = 100
	defaultMaxReaders  = 10_000
	defaultCached      = 65_536
	defaultHashQueue   = 100
)

// Store keeps the records. Each change is atomic.
type Store interface {
	accountStore
	passwordStore
	sessionStore
	lockStore
	keyStore
	readerStore
	keyReader
	sessionReader
	publicationStore
	publicationReader
	outbox
}

// Log appends events to the log of their account.
type Log interface {
	Append(ctx context.Context, c signal.Change) (signal.Position, error)
}

// Options configure a Service. The zero value has the defaults of the API decisions.
type Options struct {
	Issuer, Audience string // of access tokens
	AccessTTL        time.Duration
	RefreshTTL       time.Duration // from the issue of a refresh token
	SessionTTL       time.Duration // of a session, however often it is refreshed
	Lock             credential.LockRules
	MaxSessions      int // of an account; default 100
	MaxReaders       int // of an account; default 10,000
	Password         argon2id.Params
	HashesAtOnce     int // password hashes; default one for each core but one, at least 1
	HashQueue        int // password hashes that wait for their turn; default 100
	Cached           int // credentials remembered, of each sort; default 65,536
	Now              func() time.Time
	Log              *slog.Logger
	Metrics          *Metrics
}

// Service has what authenticates callers and what changes their credentials.
type Service struct {
	Authenticator *Authenticator
	Accounts      *Accounts
	Sessions      *Sessions
	Keys          *Keys
	Readers       *Readers
	Publications  *Publications
	Locks         *Locks

	announcer *announcer
	log       *slog.Logger
}

// New returns a service. The first of keys signs access tokens, all verify them; without
// keys it neither issues nor accepts any, which suits commands that only change records.
func New(store Store, events Log, keys []credential.NamedKey, o Options) *Service {
	o.Issuer = cmp.Or(o.Issuer, defaultName)
	o.Audience = cmp.Or(o.Audience, defaultName)
	o.AccessTTL = cmp.Or(o.AccessTTL, defaultAccessTTL)
	o.RefreshTTL = cmp.Or(o.RefreshTTL, defaultRefreshTTL)
	o.SessionTTL = cmp.Or(o.SessionTTL, defaultSessionTTL)
	o.Lock.After = cmp.Or(o.Lock.After, defaultLockAfter)
	o.Lock.Window = cmp.Or(o.Lock.Window, defaultLockWindow)
	o.Lock.Duration = cmp.Or(o.Lock.Duration, defaultLock)
	o.MaxSessions = cmp.Or(o.MaxSessions, defaultMaxSessions)
	o.MaxReaders = cmp.Or(o.MaxReaders, defaultMaxReaders)
	o.Cached = cmp.Or(o.Cached, defaultCached)
	o.HashesAtOnce = cmp.Or(o.HashesAtOnce, max(1, runtime.GOMAXPROCS(0)-1))
	o.HashQueue = cmp.Or(o.HashQueue, defaultHashQueue)
	if o.Password == (argon2id.Params{}) {
		o.Password = argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	log := o.Log.With("component", "credentials")
	// Times are stored in milliseconds.
	now := func() time.Time { return o.Now().UTC().Truncate(time.Millisecond) }
	jwt := newTokenIssuer(keys, o.Issuer, o.Audience, o.Now)
	hashes := newHasher(o.Password, o.HashesAtOnce, o.HashQueue)
	audit := auditLog{log}
	authenticator := newAuthenticator(store, jwt, o)
	announcer := &announcer{store, events, authenticator.Forget, now, log}
	locks := &Locks{store, o.Lock, audit, o.Metrics, now}
	return &Service{
		Authenticator: authenticator,
		Accounts:      &Accounts{store, hashes, locks, announcer, audit, now},
		Sessions:      &Sessions{store, hashes, locks, jwt, announcer, audit, o},
		Keys:          &Keys{store, announcer, audit, now},
		Readers:       &Readers{store, announcer, audit, now, o.MaxReaders},
		Publications:  &Publications{store, authenticator, audit},
		Locks:         locks,
		announcer:     announcer,
		log:           log,
	}
}

// Intervals of the work in the background.
const (
	tick          = time.Second
	sweepEvery    = 2 // ticks
	pruneEvery    = 30
	finishTimeout = 2 * time.Second
)

// Run does the work in the background until ctx ends: it stores the last uses of keys,
// announces events that other processes could not, and prunes the caches. At the end it
// stores the remaining uses.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
			defer cancel()
			s.guard(func() { s.Authenticator.storeUses(last) })
			return nil
		case <-ticker.C:
		}
		s.guard(func() { s.Authenticator.storeUses(ctx) })
		if n%sweepEvery == 0 {
			s.guard(func() { s.announcer.sweep(ctx) })
		}
		if n%pruneEvery == 0 {
			s.guard(s.Authenticator.prune)
		}
	}
}

func (s *Service) guard(f func()) { panics.Guard(s.log, panics.Credentials, f) }
