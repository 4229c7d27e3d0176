package dashboard

import (
	"encoding/binary"
	"maps"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// recentFor is how long a revocation also closes new connections.
const recentFor = 10 * time.Second

// revocations are the revocations of the last few seconds. They are kept because a connection that
// was authenticated just before one may arrive just after it. An account may revoke thousands of keys at once.
type revocations struct {
	of    map[signal.AccountID]map[revocation]recent
	swept int64 // when old ones were last dropped
}

// recent is when a revocation happened, by its event and by the clock of this process.
type recent struct {
	at    signal.Position
	clock int64
}

func (r recent) old(now int64) bool { return now-r.clock > int64(recentFor) }

// record adds the revocation of e, and drops old ones.
func (x *revocations) record(e *frame, now int64) {
	if now-x.swept > int64(recentFor) {
		maps.DeleteFunc(x.of, func(_ signal.AccountID, of map[revocation]recent) bool {
			maps.DeleteFunc(of, func(_ revocation, r recent) bool { return r.old(now) })
			return len(of) == 0
		})
		x.swept = now
	}
	if x.of[e.account] == nil {
		x.of[e.account] = map[revocation]recent{}
	}
	x.of[e.account][*e.revoked] = recent{e.at, now}
}

// hit reports whether, and how, a revocation closes a connection of an account that was authenticated by key or session.
func (x *revocations) hit(account signal.AccountID, key signal.KeyID, session signal.SessionID, now int64) (closing, bool) {
	find := func(kind signal.EventType, subject string) (recent, bool) {
		r, ok := x.of[account][revocation{kind, subject}]
		return r, ok && !r.old(now)
	}
	if _, deleted := find(signal.AccountDeleted, ""); deleted {
		return closeForbidden, true
	}
	if key != "" {
		_, revoked := find(signal.KeyRevoked, string(key))
		return closeUnauth, revoked
	}
	if session != "" {
		_, ended := find(signal.SessionEnded, string(session))
		all, allEnded := find(signal.SessionEnded, "")
		return closeUnauth, ended || allEnded && startedBefore(session, all.at)
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
