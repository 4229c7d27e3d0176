package dashboard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestRevocationOfAllSessionsByTime: those that began no later than the millisecond of the
// event.
func TestRevocationOfAllSessionsByTime(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_795_000_000_000)
	r := recent{revocation: revocation{signal.SessionEnded, ""}, at: signal.Position{MS: at.UnixMilli()}}
	for began, want := range map[time.Duration]bool{-time.Hour: true, -time.Millisecond: true, 0: true, time.Millisecond: false, time.Hour: false} {
		if why, hit := r.hits("", signal.NewSessionIDAt(at.Add(began))); hit != want || hit && why != closeUnauth {
			t.Errorf("a session that began %s after the event: %v, %v", began, why, hit)
		}
	}
	if _, hit := r.hits("key_1", ""); hit {
		t.Error("a key ends with the sessions")
	}
	if _, hit := r.hits("", "of another form"); !hit {
		t.Error("a session of which nothing is known goes on")
	}
}

// attachWith returns a connection that was authenticated with a key.
func (b *bench) attachWith(key signal.KeyID) (*peer, *tap) {
	s := &tap{room: 10_000}
	p := &peer{id: "con", flusher: b.flusher, socket: s}
	p.reading.Store(true)
	b.flusher.post(attached{p})
	b.flusher.post(authenticated{peer: p, account: alice, key: key, sub: everything})
	return p, s
}

// revokeKey publishes the revocation of a key of alice.
func (b *bench) revokeKey(key signal.KeyID) {
	b.flusher.revoke(&frame{account: alice, revoked: &revocation{signal.KeyRevoked, string(key)}})
}

// TestRevokedCredentialGetsNothingMore: neither a connection that was attached before
// the revocation, nor one that was authenticated before and attached after it.
func TestRevokedCredentialGetsNothingMore(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	_, first := b.attachWith("key_1")
	_, second := b.attachWith("key_1")
	other, stays := b.attachWith("key_2")
	b.settle()
	b.revokeKey("key_1")
	_, late := b.attachWith("key_1")
	b.settle()
	b.journal.append(created(alice, "BTC"))
	b.settle()
	for name, c := range map[string]struct {
		tap  *tap
		want []string
		code int
	}{
		"the first": {first, []string{"welcome"}, closeUnauth.code}, "the second": {second, []string{"welcome"}, closeUnauth.code},
		"one that comes later": {late, nil, closeUnauth.code}, "another key": {stays, []string{"welcome", "signal.new"}, 0},
	} {
		list, code := c.tap.sent(t)
		var got []string
		for _, e := range list {
			got = append(got, e.Type)
		}
		if d := cmp.Diff(c.want, got); d != "" || code != c.code {
			t.Errorf("%s: closed with %d, messages (-want +got):\n%s", name, code, d)
		}
	}
	if a := b.flusher.audiences[alice]; a == nil || len(a.peers) != 1 || a.peers[0] != other {
		t.Errorf("connections of the account: %+v, want the one with the other key", a)
	}
}

// TestOnlyTheLatestCredentialCounts: only its revocation closes the
// connection.
func TestOnlyTheLatestCredentialCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	p, s := b.attachWith("key_1")
	b.flusher.post(authenticated{peer: p, account: alice, key: "key_2", sub: everything})
	b.settle()
	b.revokeKey("key_1")
	b.settle()
	if _, code := s.sent(t); code != 0 {
		t.Errorf("closed with %d as the former key is revoked", code)
	}
	b.revokeKey("key_2")
	b.settle()
	if _, code := s.sent(t); code != closeUnauth.code {
		t.Errorf("closed with %d as its key is revoked", code)
	}
}

// TestEventsBehindARevocationAreSent, in the order of the log.
func TestEventsBehindARevocationAreSent(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	_, s := b.attachWith("key_1")
	b.settle()
	b.journal.append(signal.Event{Account: alice, Type: signal.KeyRevoked, Subject: "key_2"}, created(alice, "BTC"))
	b.settle()
	if list, _ := s.sent(t); len(list) != 2 || list[1].Type != "signal.new" {
		t.Errorf("sent %+v, want the welcome and the signal", list)
	}
}

// TestRevocationsAreKeptForSomeSeconds: only those of the last seconds are kept.
func TestRevocationsAreKeptForSomeSeconds(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.revokeKey("key_1")
	b.revokeKey("key_2")
	known := b.flusher.revoked[alice]
	if len(known) != 2 {
		t.Fatalf("%d revocations are remembered, want 2", len(known))
	}
	known[0].clock -= int64(recentFor) + 1 // time goes by
	bob := &frame{account: bob, revoked: &revocation{signal.AccountDeleted, ""}}
	b.flusher.revoke(bob)
	if _, there := b.flusher.revoked[alice]; !there {
		t.Error("a revocation is forgotten with an older one of its account")
	}
	known[1].clock -= int64(recentFor) + 1
	b.flusher.revoke(bob)
	if n := len(b.flusher.revoked[alice]); n > 0 {
		t.Errorf("%d old revocations are remembered", n)
	}
}
