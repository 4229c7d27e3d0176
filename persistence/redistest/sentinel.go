package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// masterName is what sentinels call the master.
const masterName = "m"

// Watched is a master with replicas and sentinels, which replace a master that does not answer for a
// second. Servers have an append-only file.
type Watched struct {
	tb        testing.TB
	Master    *Server // the first one
	Sentinel  *Server // the only one until AddSentinels
	Replicas  []*Server
	sentinels []*Server
	addresses []string           // of the sentinels
	byPort    map[string]*Server // the master and the replicas
}

// NewWatched starts a master and replicas, which have all of its data, and a sentinel. They are
// stopped when the test ends.
func NewWatched(tb testing.TB, replicas int) *Watched {
	tb.Helper()
	w := &Watched{tb: tb, byPort: map[string]*Server{}}
	for range 1 + replicas {
		// Arguments also hold after a Restart, and for a replica that becomes the master.
		port := FreePort(tb)
		s := NewDurable(tb, "--port", port, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
		w.byPort[port] = s
		if w.Master == nil {
			w.Master = s
		} else {
			s.Follow(w.Master)
			w.Replicas = append(w.Replicas, s)
		}
	}
	w.addSentinel(1)
	w.Sentinel = w.sentinels[0]
	w.awaitSentinels()
	return w
}

// AddSentinels starts n more sentinels. From then on the majority of all must agree that the master
// is down.
func (w *Watched) AddSentinels(n int) {
	w.tb.Helper()
	quorum := (len(w.sentinels)+n)/2 + 1
	for range n {
		w.addSentinel(quorum)
	}
	s := w.sentinel(w.Sentinel)
	defer s.Close()
	if err := s.Set(context.Background(), masterName, "quorum", strconv.Itoa(quorum)).Err(); err != nil {
		w.tb.Fatalf("set quorum of sentinels: %v", err)
	}
	w.awaitSentinels()
}

func (w *Watched) addSentinel(quorum int) {
	w.tb.Helper()
	master := w.Master.Client().ConfigGet(context.Background(), "port").Val()["port"]
	file := filepath.Join(w.tb.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]s %[3]d\nsentinel down-after-milliseconds %[1]s 1000\n"+
		"sentinel failover-timeout %[1]s 5000\n", masterName, master, quorum)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.tb.Fatal(err)
	}
	port := FreePort(w.tb)
	w.sentinels = append(w.sentinels, startProcess(w.tb, []string{file, "--sentinel"}, "--port", port))
	w.addresses = append(w.addresses, "127.0.0.1:"+port)
}

// awaitSentinels waits until each sentinel knows the replicas and the other sentinels.
func (w *Watched) awaitSentinels() {
	w.tb.Helper()
	for _, server := range w.sentinels {
		s := w.sentinel(server)
		defer s.Close()
		Eventually(w.tb, func() bool {
			master, err := s.Master(context.Background(), masterName).Result()
			return err == nil && master["num-slaves"] == strconv.Itoa(len(w.Replicas)) &&
				master["num-other-sentinels"] == strconv.Itoa(len(w.sentinels)-1)
		})
	}
}

func (w *Watched) sentinel(s *Server) *redis.SentinelClient {
	return redis.NewSentinelClient(&redis.Options{Network: "unix", Addr: s.socket, MaxRetries: -1})
}

// URL returns the address for persistence.Options.
func (w *Watched) URL() string {
	return "redis+sentinel://" + User + ":any@" + strings.Join(w.addresses, ",") + "/" + masterName
}

// Sentinels returns all sentinels.
func (w *Watched) Sentinels() []*Server { return w.sentinels }

// Servers returns the first master and the first replicas.
func (w *Watched) Servers() []*Server { return slices.Concat([]*Server{w.Master}, w.Replicas) }

// Masters returns the present master, by the first sentinel that answers.
func (w *Watched) Masters() []*Server {
	w.tb.Helper()
	for _, server := range w.sentinels {
		if master := w.named(server); master != nil {
			return []*Server{master}
		}
	}
	w.tb.Fatal("no sentinel names a master")
	return nil
}

// named returns what a sentinel takes for the master; nil if it does not answer.
func (w *Watched) named(sentinel *Server) *Server {
	s := w.sentinel(sentinel)
	defer s.Close()
	address, err := s.GetMasterAddrByName(context.Background(), masterName).Result()
	if err != nil || len(address) != 2 {
		return nil
	}
	return w.byPort[address[1]]
}

// AwaitFailover waits until another server than old is the master.
func (w *Watched) AwaitFailover(old *Server) {
	w.tb.Helper()
	eventually(w.tb, settleTimeout, settleEvery, func() bool { return w.Masters()[0] != old })
}

// AwaitSettled waits until all sentinels name one master, and all others are in step with it.
func (w *Watched) AwaitSettled() {
	w.tb.Helper()
	eventually(w.tb, settleTimeout, settleEvery, func() bool {
		master := w.Masters()[0]
		for _, s := range w.sentinels {
			if w.named(s) != master {
				return false
			}
		}
		return settled(w.Servers(), 1)
	})
}
