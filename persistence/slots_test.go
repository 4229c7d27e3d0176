package persistence

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// contents returns the values of all keys of a cluster, as DUMP has them, also of those in a slot that is
// being moved. Keys that are written for a WAIT, and scripts' memory of batches, are left out.
func contents(t *testing.T, cluster *redistest.Cluster) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, node := range cluster.Nodes() {
		for _, key := range node.Keys(t.Context(), "*").Val() {
			if strings.HasSuffix(key, ":confirm") || strings.Contains(key, ":batch:") {
				continue
			}
			pipe := node.Pipeline()
			pipe.Do(t.Context(), "ASKING")
			value := pipe.Do(t.Context(), "DUMP", key)
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatalf("read %s: %v", key, err)
			}
			if _, twice := all[key]; twice {
				t.Errorf("%s is on two nodes", key)
			}
			all[key] = value.Val().(string)
		}
	}
	return all
}

// TestHalfMovedSlots makes every change that is acknowledged while half of the keys of its slot are on
// another node: all of it or nothing is stored, and it succeeds when the slot has been moved.
func TestHalfMovedSlots(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	cluster := redistest.NewCluster(t, 2)
	const partitions = 2
	s := openStore(t, Options{URL: cluster.URL(), Partitions: partitions})
	l := openLog(t, s, eventlog.LogOptions{AppendTimeout: 300 * time.Millisecond})
	changes := changesToAcknowledge(t, s)
	for p := range partitions { // records in each of them
		if _, err := l.Append(t.Context(), storetest.Created(storetest.Signal(storetest.AccountIn(s.Client, p)))); err != nil {
			t.Fatal(err)
		}
	}
	var finish []func()
	for p := range partitions {
		finish = append(finish, cluster.MoveHalf(s.Client.EventsKey(p)))
	}
	finish = append(finish, cluster.MoveHalf(s.Client.AccountsKey()))
	refused := map[string]bool{}
	for _, c := range changes {
		before := contents(t, cluster)
		if err := c.do(s, l); err != nil {
			refused[c.name] = true
			storetest.WantKind(t, c.name, err, signal.KindUnavailable)
			if d := cmp.Diff(before, contents(t, cluster)); d != "" {
				t.Errorf("%s has failed and changed something (-before +after):\n%s", c.name, d)
			}
		}
	}
	t.Logf("refused meanwhile: %q", slices.Sorted(maps.Keys(refused)))
	if !refused["delete account"] || !refused["append"] {
		t.Error("a script succeeds although its keys are on two nodes")
	}
	for _, f := range finish {
		f()
	}
	for _, c := range changes {
		if refused[c.name] {
			redistest.Eventually(t, func() bool { return c.do(s, l) == nil })
		}
		if c.held != nil {
			if err := c.held(s); err != nil {
				t.Errorf("%s is lost: %v", c.name, err)
			}
		}
	}
}

// TestAccountIsDeletedWhileItsSlotMoves: no credential stays.
func TestAccountIsDeletedWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, 2)
	s := openStore(t, Options{URL: cluster.URL(), Partitions: 2})
	a := storetest.AddAccount(t, s.Credentials, "a@example.com")
	for i := range 5 {
		storetest.AddKey(t, s.Credentials, a.ID, fmt.Sprint(i))
		storetest.AddSession(t, s.Credentials, a.ID)
	}
	readers, digests := storetest.Readers(a.ID, "reader", 5)
	if err := s.Credentials.CreateReaders(t.Context(), readers, digests, 10); err != nil {
		t.Fatal(err)
	}
	// The keys that every deletion names exist, or the cluster would refuse it because of them.
	s.Client.RDB.HSet(t.Context(), s.Client.LockKey(credential.DigestOf(a.Email).String()), "v", 1)
	s.Client.RDB.ZAdd(t.Context(), s.Client.OutboxKey(), storetest.DueAt(time.Now(), "x"))
	// What only the account's own records name is on the other node.
	finish := cluster.MoveSome(s.Client.AccountsKey(), func(_ int, key string) bool {
		return strings.Contains(key, ":key:") || strings.Contains(key, ":session:") || strings.Contains(key, ":refresh:")
	})
	before := contents(t, cluster)
	_, err := s.Credentials.DeleteAccount(t.Context(), a.ID, storetest.Now())
	storetest.WantKind(t, "delete account", err, signal.KindUnavailable)
	if d := cmp.Diff(before, contents(t, cluster)); d != "" {
		t.Errorf("a deletion has failed and changed something (-before +after):\n%s", d)
	}
	deleted := make(chan error)
	go func() {
		for {
			_, err := s.Credentials.DeleteAccount(t.Context(), a.ID, storetest.Now())
			if signal.KindOf(err) != signal.KindUnavailable {
				deleted <- err
				return
			}
		}
	}()
	finish()
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	left := slices.Sorted(maps.Keys(contents(t, cluster)))
	if d := cmp.Diff([]string{s.Client.OutboxKey()}, left); d != "" {
		t.Errorf("keys that are left (-want +got):\n%s", d)
	}
}

// TestWritesWhileASlotMoves: a partition takes writes again when its slot has been moved, and has each
// once.
func TestWritesWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, 2)
	s := openStore(t, Options{URL: cluster.URL(), Partitions: 2})
	l := openLog(t, s, eventlog.LogOptions{AppendTimeout: time.Minute})
	account := storetest.AccountIn(s.Client, 1)
	append := func() {
		t.Helper()
		if _, err := l.Append(t.Context(), storetest.Noted(account, "x")); err != nil {
			t.Fatal(err)
		}
	}
	append()
	for i := range 1000 {
		s.Client.RDB.Set(t.Context(), s.Client.PartitionKey(1, fmt.Sprint("filler:", i)), "x", 0)
	}
	finish := cluster.MoveHalf(s.Client.EventsKey(1))
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		append()
	}()
	finish()
	moved := time.Since(began)
	<-done
	t.Logf("the second half was moved in %v, and the write took %v", moved, time.Since(began))
	events, err := s.Logs.ReadLog(t.Context(), 1, signal.Position{}, 10)
	if err != nil || len(events) != 2 {
		t.Errorf("%d events are in the log, %v", len(events), err)
	}
}
