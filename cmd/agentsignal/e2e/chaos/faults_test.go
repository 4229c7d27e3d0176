package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// fault is one thing that goes wrong and is right again when it returns.
type fault struct {
	name string
	make func(c *cluster, random *rand.Rand)
	long bool // left out of the short run
}

// selected returns the faults of a run: the one that is named, or all of a short or a long run. It fails
// if there is none of that name.
func selected(all []fault, name string, long bool) ([]fault, error) {
	var chosen []fault
	var names []string
	for _, f := range all {
		names = append(names, f.name)
		if f.name == name || name == "" && (long || !f.long) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there is no fault %q; there are:\n\t%s", name, strings.Join(names, "\n\t"))
	}
	return chosen, nil
}

// between returns a random time.
func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
}

func anyOf[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

// nodeFaults are those of the nodes of the service.
var nodeFaults = []fault{
	{"kill -9 of a node", func(c *cluster, random *rand.Rand) {
		n := anyOf(random, c.nodes)
		n.end(syscall.SIGKILL)
		time.Sleep(between(random, 0, 2*lease))
		n.start()
		n.awaitReady()
	}, false},
	{"SIGTERM of a node", func(c *cluster, random *rand.Rand) {
		n := anyOf(random, c.nodes)
		if code := n.end(syscall.SIGTERM); code != 0 {
			c.tb.Errorf("%s ended with %d:\n%s", n.name, code, n.child.Log.Newest())
		}
		time.Sleep(between(random, 0, lease))
		n.start()
		n.awaitReady()
	}, false},
	{"pause of a node beyond its lease", func(c *cluster, random *rand.Rand) {
		n := anyOf(random, c.nodes)
		n.child.Signal(syscall.SIGSTOP)
		time.Sleep(lease + between(random, 0, 2*lease))
		n.child.Signal(syscall.SIGCONT)
		n.awaitReady()
	}, false},
	{"join and leave of a further node", func(c *cluster, random *rand.Rand) {
		n := c.further
		n.start()
		n.awaitReady()
		time.Sleep(between(random, 0, 2*lease))
		n.end(anyOf(random, []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}))
		time.Sleep(between(random, 0, 2*lease))
	}, true},
}

// linkFaults are those of the connections of one node, the others of which go on.
var linkFaults = []fault{
	{"cut of a node from Redis", func(c *cluster, random *rand.Rand) {
		n := anyOf(random, c.nodes)
		n.link.Switch(nil)
		time.Sleep(between(random, 0, 2*lease))
		n.link.Switch(c.redis.Masters()[0])
		n.awaitReady()
	}, false},
	{"slow link from a node to Redis", func(c *cluster, random *rand.Rand) {
		n := anyOf(random, c.nodes)
		n.link.Delay(between(random, 20*time.Millisecond, lease/3))
		time.Sleep(between(random, lease, 3*lease))
		n.link.Delay(0)
		n.awaitReady()
	}, true},
}

// topology is a Redis of one or several servers, which is in order before and after each fault.
type topology interface {
	URL() string
	Servers() []*redistest.Server
	Masters() []*redistest.Server
	AwaitSettled()
}

// single is one server.
type single struct{ *redistest.Server }

func (s single) Servers() []*redistest.Server { return []*redistest.Server{s.Server} }
func (s single) Masters() []*redistest.Server { return s.Servers() }
func (s single) AwaitSettled()                {}

// replicated has replicas, which take the place of a master that is gone.
type replicated interface {
	topology
	AwaitFailover(old *redistest.Server)
}

// newTopology starts the Redis that CHAOS_REDIS names, and returns its faults and how many replicas
// must confirm.
func newTopology(tb testing.TB, name string) (redis topology, faults []fault, waitReplicas int) {
	tb.Helper()
	redistest.OwnClocks(tb)
	durable := []string{"--appendonly", "yes", "--appendfsync", "no"} // as redistest.NewDurable
	switch name {
	case "server":
		s := single{redistest.NewDurable(tb)}
		return s, slices.Concat(serverFaults(s), clockFaults(s), linkFaults), 0
	case "sentinel":
		w := redistest.NewWatched(tb, 2)
		w.AddSentinels(2)
		// Both replicas: see decision 54.
		return w, slices.Concat(serverFaults(w), clockFaults(w), replicaFaults(w), sentinelFaults(w)), 2
	case "cluster":
		c := redistest.NewCluster(tb, 3, durable...)
		c.AddReplicas(0, 1, 2)
		return c, slices.Concat(serverFaults(c), clockFaults(c), replicaFaults(c), slotFaults(c)), 1
	}
	tb.Fatalf("CHAOS_REDIS=%s: want server, sentinel or cluster", name)
	return nil, nil, 0
}

// serverFaults are those that every Redis must bear. Where there are replicas, one may take the
// master's place or not, as it happens.
func serverFaults(redis topology) []fault {
	kill := func(random *rand.Rand, atLeast time.Duration) (restart func()) {
		s := anyOf(random, redis.Masters())
		s.Kill()
		return func() {
			time.Sleep(atLeast + between(random, 0, lease))
			s.Restart()
			redis.AwaitSettled()
		}
	}
	return []fault{
		{"pause of Redis", func(_ *cluster, random *rand.Rand) {
			s := anyOf(random, redis.Masters())
			s.Pause()
			time.Sleep(between(random, 100*time.Millisecond, 2*lease))
			s.Continue()
			redis.AwaitSettled()
		}, false},
		{"full Redis", func(c *cluster, random *rand.Rand) {
			s := anyOf(random, redis.Masters())
			limit := func(bytes string) {
				rdb := s.Client()
				defer rdb.Close()
				commandtest.Must(c.tb, rdb.ConfigSet(c.tb.Context(), "maxmemory", bytes).Err())
			}
			limit("1")
			time.Sleep(between(random, 100*time.Millisecond, lease))
			limit("0")
			redis.AwaitSettled()
		}, false},
		// Appends end without a known outcome.
		{"kill -9 of Redis", func(_ *cluster, random *rand.Rand) { kill(random, appendTimeout+time.Second)() }, false},
		{"end of all connections to Redis", func(c *cluster, random *rand.Rand) {
			for range 1 + random.IntN(5) {
				for _, s := range redis.Servers() {
					rdb := s.Client()
					err := rdb.Do(c.tb.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
					commandtest.Must(c.tb, err)
					rdb.Close()
				}
				time.Sleep(between(random, 0, 200*time.Millisecond))
			}
			redis.AwaitSettled()
		}, false},
		{"kill -9 of a node and of Redis", func(c *cluster, random *rand.Rand) {
			n := anyOf(random, c.nodes)
			restart := kill(random, 0)
			n.end(syscall.SIGKILL)
			restart()
			n.start()
			n.awaitReady()
		}, false},
	}
}

// clockFaults are jumps of the clock of one server, by seconds or by minutes, which is set right later: so
// each jumps forward and back.
func clockFaults(redis topology) []fault {
	jump := func(name string, sign time.Duration) fault {
		return fault{name, func(c *cluster, random *rand.Rand) {
			c.jumped.Store(true)
			s, by := anyOf(random, redis.Masters()), between(random, time.Second, 10*time.Second)
			if random.IntN(2) == 0 {
				by = between(random, longestJump/2, longestJump)
			}
			s.SetClock(sign * by)
			time.Sleep(between(random, 0, 5*lease)) // nodes read the clock every 10 s
			s.SetClock(0)
			redis.AwaitSettled()
		}, true}
	}
	return []fault{jump("clock of Redis that jumps ahead", 1), jump("clock of Redis that jumps back", -1)}
}

// replicaFaults are those of masters that are replaced, and come back believing that they still are
// masters, and of replicas. While a master lacks one, changes are refused: so after each failover, until
// the old master is back.
func replicaFaults(redis replicated) []fault {
	pause := func(random *rand.Rand, servers []*redistest.Server) {
		for _, s := range servers {
			s.Pause()
		}
		time.Sleep(between(random, 100*time.Millisecond, 2*lease))
		for _, s := range servers {
			s.Continue()
		}
		redis.AwaitSettled()
	}
	replicas := func() []*redistest.Server {
		masters := redis.Masters()
		return slices.DeleteFunc(slices.Clone(redis.Servers()), func(s *redistest.Server) bool {
			return slices.Contains(masters, s)
		})
	}
	replaced := func(end, begin func(*redistest.Server)) func(*cluster, *rand.Rand) {
		return func(_ *cluster, random *rand.Rand) {
			s := anyOf(random, redis.Masters())
			end(s)
			redis.AwaitFailover(s)
			time.Sleep(between(random, 0, lease))
			begin(s)
			redis.AwaitSettled()
		}
	}
	return []fault{
		{"kill -9 of a master until it is replaced",
			replaced((*redistest.Server).Kill, (*redistest.Server).Restart), false},
		{"pause of a master until it is replaced",
			replaced((*redistest.Server).Pause, (*redistest.Server).Continue), false},
		{"pause of a replica", func(_ *cluster, random *rand.Rand) {
			pause(random, []*redistest.Server{anyOf(random, replicas())})
		}, false},
		{"pause of all replicas", func(_ *cluster, random *rand.Rand) { pause(random, replicas()) }, false},
	}
}

// sentinelFaults are those of sentinels.
func sentinelFaults(w *redistest.Watched) []fault {
	return []fault{{"kill -9 of the master while a sentinel is paused", func(_ *cluster, random *rand.Rand) {
		sentinel, master := anyOf(random, w.Sentinels()), w.Masters()[0]
		sentinel.Pause()
		master.Kill()
		w.AwaitFailover(master)
		master.Restart()
		sentinel.Continue()
		w.AwaitSettled()
	}, false}}
}

// slotFaults are those of the slots of a Redis Cluster.
func slotFaults(redis *redistest.Cluster) []fault {
	return []fault{{"slots that move", func(c *cluster, random *rand.Rand) {
		k := c.store.Client
		keys := []string{k.EventsKey(random.IntN(k.Partitions())), k.AccountsKey(), k.FeederEpochKey(), k.NodesKey()}
		random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, key := range keys {
			finish := redis.MoveHalf(key)
			time.Sleep(between(random, 0, lease/3))
			finish()
			redis.AwaitSettled()
		}
	}, true}}
}
