package dashboard

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestRevocationOfAllSessionsByTime checks that it revokes those that began no later
// than the millisecond of the event.
func TestRevocationOfAllSessionsByTime(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_795_000_000_000)
	var x revocations
	x.of = map[signal.AccountID]map[revocation]recent{alice: {
		{signal.SessionEnded, ""}: {at: signal.Position{MS: at.UnixMilli()}}}}
	for _, began := range []time.Duration{-time.Hour, -time.Millisecond, 0, time.Millisecond, time.Hour} {
		why, hit := x.hit(alice, "", signal.NewSessionIDAt(at.Add(began)), 0)
		if hit != (began <= 0) || hit && why != closeUnauth {
			t.Errorf("a session that began %s after the event: %v, %v", began, why, hit)
		}
	}
	if _, hit := x.hit(alice, "key_1", "", 0); hit {
		t.Error("a key is revoked together with the sessions")
	}
	if _, hit := x.hit(alice, "", "of another form", 0); !hit {
		t.Error("a session whose beginning is unknown is not revoked")
	}
}

// revokeKey publishes the revocation of a key of alice.
func (b *bench) revokeKey(key signal.KeyID) {
	b.flusher.revoke([]*frame{{account: alice, revoked: &revocation{signal.KeyRevoked, string(key)}}})
}

// TestRevokedCredentialGetsNothingMore checks a connection that was attached before the
// revocation, and one that was authenticated before and attached after it.
func TestRevokedCredentialGetsNothingMore(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	_, first := b.attachWith("key_1", 10_000)
	_, second := b.attachWith("key_1", 10_000)
	other, stays := b.attachWith("key_2", 10_000)
	b.settle()
	b.revokeKey("key_1")
	_, late := b.attachWith("key_1", 10_000)
	b.settle()
	b.journal.append(created(alice, "BTC"))
	b.settle()
	for name, c := range map[string]struct {
		tap  *tap
		want []string
		code int
	}{
		"the first":            {first, []string{"welcome"}, closeUnauth.code},
		"the second":           {second, []string{"welcome"}, closeUnauth.code},
		"one attached after":   {late, nil, closeUnauth.code},
		"one with another key": {stays, []string{"welcome", "signal.new"}, 0},
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
	if a := b.flusher.audiences.of[alice]; a == nil || len(a.peers) != 1 || a.peers[0] != other {
		t.Errorf("connections of the account: %+v, want the one with the other key", a)
	}
}

// TestOnlyTheLatestCredentialCounts checks that only its revocation closes the connection.
func TestOnlyTheLatestCredentialCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	p, s := b.attachWith("key_1", 10_000)
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

func TestEventsAfterARevocationAreSent(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	_, s := b.attachWith("key_1", 10_000)
	b.settle()
	b.journal.append(signal.Event{Account: alice, Type: signal.KeyRevoked, Subject: "key_2"}, created(alice, "BTC"))
	b.settle()
	if list, _ := s.sent(t); len(list) != 2 || list[1].Type != "signal.new" {
		t.Errorf("sent %+v, want the welcome and the signal", list)
	}
}

func TestRevocationsAreKeptForSomeSeconds(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.revokeKey("key_1")
	known := func() int { return len(b.flusher.revoked.of[alice]) }
	pass := func(d time.Duration) { // as if the process had started earlier
		b.hub.started = b.hub.started.Add(-d)
	}
	pass(recentFor / 2)
	b.revokeKey("key_2")
	b.revokeKey("key_2")
	if known() != 2 {
		t.Fatalf("%d revocations are kept, want 2", known())
	}
	pass(recentFor/2 + 1)
	if _, hit := b.flusher.revoked.hit(alice, "key_1", "", b.hub.clock()); hit {
		t.Error("an old revocation closes a connection")
	}
	deleted := []*frame{{account: bob, revoked: &revocation{signal.AccountDeleted, ""}}}
	b.flusher.revoke(deleted)
	if known() != 1 {
		t.Errorf("%d revocations are kept, want the newer one", known())
	}
	pass(recentFor + 1)
	b.flusher.revoke(deleted)
	if _, there := b.flusher.revoked.of[alice]; there {
		t.Errorf("%d old revocations are kept", known())
	}
}

// TestManyKeysAreRevokedAtOnce with one look at the connections of their account, and what follows is sent to the others.
func TestManyKeysAreRevokedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	_, ended := b.attachWith("key_7", 10_000)
	_, stays := b.attachWith("key_none", 10_000)
	b.settle()
	events := []signal.Event{created(alice, "BTC")}
	for i := range 10 {
		events = append(events, signal.Event{Account: alice, Type: signal.KeyRevoked, Subject: fmt.Sprint("key_", i)})
	}
	b.journal.append(append(events, created(alice, "ETH"))...)
	b.settle()
	if list, code := ended.sent(t); len(list) != 1 || code != closeUnauth.code {
		t.Errorf("sent %+v, closed with %d", list, code)
	}
	if list, code := stays.sent(t); len(list) != 3 || code != 0 {
		t.Errorf("the other one: sent %+v, closed with %d", list, code)
	}
}
