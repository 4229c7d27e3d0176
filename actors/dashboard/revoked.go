package dashboard

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// recentFor is how long a revocation also closes new connections.
const recentFor = 10 * time.Second

// revocations are the revocations of the last few seconds. They are kept because a connection that
// was authenticated just before one may arrive just after it.
type revocations map[signal.AccountID][]recent

// recent is a revocation of the last few seconds.
type recent struct {
	revocation
	at    signal.Position
	clock int64 // when it arrived here
}

func (r recent) old(now int64) bool { return now-r.clock > int64(recentFor) }

// record adds the revocation of e, and drops old ones.
func (x revocations) record(e *frame, now int64) recent {
	r := recent{revocation: *e.revoked, at: e.at, clock: now}
	list := slices.DeleteFunc(x[e.account], func(r recent) bool { return r.old(now) })
	x[e.account] = append(list, r)
	maps.DeleteFunc(x, func(_ signal.AccountID, list []recent) bool { return list[len(list)-1].old(now) })
	return r
}

// hit reports whether, and how, a revocation closes a connection that has just been authenticated.
func (x revocations) hit(o *authenticated, now int64) (closing, bool) {
	for _, r := range x[o.account] {
		if why, hit := r.hits(o.key, o.session); hit && !r.old(now) {
			return why, true
		}
	}
	return closing{}, false
}

// hits reports whether, and how, the revocation closes a connection of its account
// that was authenticated by key or session.
func (r recent) hits(key signal.KeyID, session signal.SessionID) (closing, bool) {
	switch r.kind {
	case signal.AccountDeleted:
		return closeForbidden, true
	case signal.KeyRevoked:
		return closeUnauth, key != "" && string(key) == r.subject
	case signal.SessionEnded:
		ended := string(session) == r.subject || r.subject == "" && startedBefore(session, r.at)
		return closeUnauth, session != "" && ended
	}
	return closing{}, false
}

// startedBefore reports whether session began no later than p, by the time in its ID.
func startedBefore(session signal.SessionID, p signal.Position) bool {
	id, ok := signal.ULIDBytes(string(session))
	if !ok {
		return true
	}
	return int64(binary.BigEndian.Uint64(id[:8])>>16) <= p.MS
}
