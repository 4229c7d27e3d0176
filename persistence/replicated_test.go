package persistence

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/redis/go-redis/v9"
)

// freePort returns a port that nobody listened on a moment ago. A node of a cluster
// also needs the one 10,000 above.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port < 50_000 {
			return strconv.Itoa(port)
		}
	}
}

func TestAppendWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	b := newLogBench(t, master, LogOptions{WaitReplicas: 1, AppendTimeout: time.Second})
	account := accountIn(b.store, 0)
	if _, err := b.log.Append(t.Context(), noted(account, "alone")); signal.KindOf(err) != signal.KindUnavailable {
		t.Fatalf("without a replica: %v", err)
	}
	// Sent again and again, it is there once.
	if n := b.rdb.XLen(t.Context(), eventsKey(0)).Val(); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	port := freePort(t)
	if err := b.rdb.ConfigSet(t.Context(), "port", port).Err(); err != nil {
		t.Fatal(err)
	}
	b.rdb.ConfigSet(t.Context(), "repl-diskless-sync-delay", "0")
	copied := replica.Client()
	if err := copied.ReplicaOf(t.Context(), "127.0.0.1", port).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		_, err := b.log.Append(t.Context(), noted(account, "first"))
		return err == nil
	})
	for i := range 50 {
		p := b.append(noted(account, strconv.Itoa(i)))
		// Already there, not soon.
		if n := copied.XRange(t.Context(), eventsKey(0), p.String(), p.String()).Val(); len(n) != 1 {
			t.Fatalf("the replica lacks event %d", i)
		}
	}
	replica.Pause()
	if _, err := b.log.Append(t.Context(), noted(account, "stalled")); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("while the replica stalls: %v", err)
	}
	replica.Continue()
	eventually(t, func() bool {
		_, err := b.log.Append(t.Context(), noted(account, "again"))
		return err == nil
	})
}

// startCluster starts a cluster of n masters and returns clients of them and the
// address for Options.
func startCluster(t *testing.T, n int) ([]*redis.Client, string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is needed for this test: install the package redis-server")
	}
	var nodes []*redis.Client
	var ports []string
	for i := range n {
		port, dir := freePort(t), t.TempDir()
		cmd := exec.Command(path, "--port", port, "--cluster-enabled", "yes", "--dir", dir, "--save", "", "--appendonly", "no",
			"--cluster-node-timeout", "2000", "--logfile", filepath.Join(dir, "log"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		t.Cleanup(func() {
			c.Close()
			cmd.Process.Kill()
			cmd.Wait()
			os.RemoveAll(dir)
		})
		eventually(t, func() bool { return c.Ping(context.Background()).Err() == nil })
		if err := c.ClusterAddSlotsRange(t.Context(), i*16384/n, (i+1)*16384/n-1).Err(); err != nil {
			t.Fatal(err)
		}
		for _, other := range ports {
			c.ClusterMeet(t.Context(), "127.0.0.1", other)
		}
		nodes, ports = append(nodes, c), append(ports, port)
	}
	for _, c := range nodes {
		eventually(t, func() bool {
			info := c.ClusterInfo(context.Background()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))
		})
	}
	return nodes, "redis+cluster://127.0.0.1:" + ports[0]
}

func TestLogOnCluster(t *testing.T) {
	t.Parallel()
	nodes, address := startCluster(t, 2)
	s, err := Open(Options{URL: address, Partitions: 4, BlockingReaders: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := NewLog(s, LogOptions{AppendTimeout: 5 * time.Second})
	defer log.Close(context.Background())
	tail := NewTail(s, TailOptions{})
	seen := make(chan signal.Event, 1000)
	tail.Subscribe(func(_ int, events []signal.Event) {
		for _, e := range events {
			seen <- e
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- tail.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	eventually(t, tail.Attached)

	b := &logBench{T: t, store: s, log: log}
	check := func(p int) {
		t.Helper()
		account := accountIn(s, p)
		sig := logSignal(account)
		at := b.append(created(sig))
		if head, err := tail.Head(t.Context(), p); err != nil || head.Compare(at.Plus(1)) < 0 {
			t.Errorf("Head of partition %d = %v, %v; want %v", p, head, err, at.Plus(1))
		}
		if err := tail.Wait(t.Context(), p, at.Plus(1)); err != nil {
			t.Error(err)
		}
		for range 2 {
			if e := <-seen; e.Account != account {
				t.Errorf("the tail gave %v", e)
			}
		}
		if events, complete, err := s.ReadEvents(t.Context(), account, at, 10); err != nil || !complete || len(events) != 1 {
			t.Errorf("ReadEvents of partition %d: %d, %v, %v", p, len(events), complete, err)
		}
		if _, err := s.SignalByID(t.Context(), account, sig.ID, at, signal.Position{}); err != nil {
			t.Errorf("SignalByID of partition %d: %v", p, err)
		}
		n := 0
		if _, err := s.ScanSignals(t.Context(), p, func(SignalEntry) error { n++; return nil }); err != nil || n == 0 {
			t.Errorf("ScanSignals of partition %d: %d, %v", p, n, err)
		}
		if _, err := s.StreamStats(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for p := range 4 {
		check(p)
	}
	// A slot moves to the other node with all that is in it.
	const p = 1
	slot := int(nodes[0].ClusterKeySlot(t.Context(), eventsKey(p)).Val())
	from, to := nodes[0], nodes[1]
	if from.ClusterCountKeysInSlot(t.Context(), slot).Val() == 0 {
		from, to = to, from
	}
	id := to.ClusterMyID(t.Context()).Val()
	to.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "IMPORTING", from.ClusterMyID(t.Context()).Val())
	from.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "MIGRATING", id)
	host, port, _ := net.SplitHostPort(to.Options().Addr)
	for _, key := range from.ClusterGetKeysInSlot(t.Context(), slot, 100).Val() {
		if err := from.Migrate(t.Context(), host, port, key, 0, 5*time.Second).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*redis.Client{to, from} {
		if err := c.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", id).Err(); err != nil {
			t.Fatal(err)
		}
	}
	check(p)
}
