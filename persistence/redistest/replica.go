package redistest

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// noMaster is a port without a server: its replica keeps its data.
const noMaster = "1"

// Follow makes s a replica of master. It waits until s has the same data and until the master
// counts it in WAIT, which may be later.
func (s *Server) Follow(master *Server) {
	s.tb.Helper()
	ctx := context.Background()
	c := master.Client()
	port := FreePort(s.tb)
	settings := map[string]string{"port": port, "repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1"}
	for name, value := range settings {
		if now := c.ConfigGet(ctx, name).Val()[name]; name == "port" && now != "0" {
			port = now // of another replica
		} else if err := c.ConfigSet(ctx, name, value).Err(); err != nil {
			s.tb.Fatalf("let replicas follow: %v", err)
		}
	}
	s.follow("127.0.0.1", port)
	own := s.Client()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(2 * time.Millisecond) {
		info := own.Info(ctx, "replication").Val()
		synced := !strings.Contains(info, "master_sync_in_progress:1")
		if synced && strings.Contains(info, "master_link_status:up") && allOnline(ctx, c) {
			return
		}
		if time.Now().After(deadline) {
			s.tb.Fatalf("the replica does not follow:\n%s", info)
		}
	}
}

// allOnline reports whether a master has replicas and counts all of them in WAIT.
func allOnline(ctx context.Context, master *redis.Client) bool {
	info := master.Info(ctx, "replication").Val()
	online := strings.Count(info, "state=online")
	return online > 0 && online == strings.Count(info, "state=")
}

// Detach separates a replica from its master: it keeps its data and takes no writes.
func (s *Server) Detach() {
	s.tb.Helper()
	s.follow("127.0.0.1", noMaster)
}

// Promote makes a replica a master.
func (s *Server) Promote() {
	s.tb.Helper()
	s.follow("NO", "ONE")
}

func (s *Server) follow(host, port string) {
	s.tb.Helper()
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket, MaxRetries: -1})
	defer c.Close()
	if err := c.ReplicaOf(context.Background(), host, port).Err(); err != nil {
		s.tb.Fatalf("replica of %s %s: %v", host, port, err)
	}
}

// InStep waits until a replica has all writes of its master.
func (s *Server) InStep(master *Server) {
	s.tb.Helper()
	ctx := context.Background()
	own, other := s.Client(), master.Client()
	offset := func(c *redis.Client, field string) string {
		for line := range strings.Lines(c.Info(ctx, "replication").Val()) {
			if value, ok := strings.CutPrefix(line, field+":"); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	Eventually(s.tb, func() bool {
		return offset(own, "slave_repl_offset") == offset(other, "master_repl_offset")
	})
}

// Proxy is an address whose server may change, as in a failover.
type Proxy struct {
	tb     testing.TB
	listen net.Listener

	delay atomic.Int64 // of replies, in nanoseconds

	mu    sync.Mutex
	to    *Server
	conns map[net.Conn]struct{}
}

// NewProxy starts a proxy for the server to. It is stopped when the test ends.
func NewProxy(tb testing.TB, to *Server) *Proxy {
	tb.Helper()
	dir, err := newDir()
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{tb: tb, to: to, conns: map[net.Conn]struct{}{}}
	if p.listen, err = net.Listen("unix", filepath.Join(dir, "proxy")); err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := p.listen.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.pass(c) })
		}
	})
	tb.Cleanup(func() {
		p.listen.Close()
		p.Switch(nil)
		wg.Wait()
		os.RemoveAll(dir)
	})
	return p
}

// URL returns the proxy's address for persistence.Options.
func (p *Proxy) URL() string { return "unix://" + p.listen.Addr().String() }

// Switch closes all connections and leads new ones to another server. If that is nil, they are
// refused.
func (p *Proxy) Switch(to *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
	for c := range p.conns {
		c.Close()
	}
}

// Delay makes each reply arrive later.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// reply is a part of what a server has answered.
type reply struct {
	bytes []byte
	at    time.Time // when the client gets it
}

// answer passes replies of server on to c when their delay is over. Later ones do not wait for that of earlier ones,
// so that a delay does not limit how much passes.
func (p *Proxy) answer(c, server net.Conn) {
	replies := make(chan reply, 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		for r := range replies {
			time.Sleep(time.Until(r.at))
			if _, err := c.Write(r.bytes); err != nil {
				server.Close() // ends the reads
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			replies <- reply{bytes.Clone(buffer[:n]), time.Now().Add(time.Duration(p.delay.Load()))}
		}
		if err != nil {
			break
		}
	}
	close(replies)
	wg.Wait()
}

// pass forwards one connection.
func (p *Proxy) pass(c net.Conn) {
	defer c.Close()
	p.mu.Lock()
	var server net.Conn
	if p.to != nil {
		server, _ = net.Dial("unix", p.to.socket)
	}
	if server != nil {
		p.conns[c], p.conns[server] = struct{}{}, struct{}{}
	}
	p.mu.Unlock()
	if server == nil {
		return
	}
	go func() {
		io.Copy(server, c)
		server.Close()
		c.Close()
	}()
	p.answer(c, server)
	server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	delete(p.conns, server)
}

const (
	// settleTimeout bounds the wait for a failover, and until all replicas follow again. A sentinel
	// takes 8 to 18 s to make a former master a replica.
	settleTimeout = 3 * time.Minute
	// settleEvery is the time between two looks.
	settleEvery = 50 * time.Millisecond
)

// settled reports whether servers are so many masters, and all others follow these.
func settled(servers []*Server, masters int) bool {
	replicas := len(servers) - masters
	up, online := 0, 0 // as replicas see it, and as their masters do
	for _, s := range servers {
		info := s.info("replication")
		up += strings.Count(info, "master_link_status:up")
		online += strings.Count(info, "state=online")
	}
	return up == replicas && online == replicas && len(mastersOf(servers)) == masters
}

// IsMaster reports whether the server takes itself for a master.
func (s *Server) IsMaster() bool { return strings.Contains(s.info("replication"), "role:master") }

// mastersOf returns the servers that take themselves for masters.
func mastersOf(servers []*Server) []*Server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *Server) bool { return !s.IsMaster() })
}

// info returns a section of INFO, or "" if the server does not answer.
func (s *Server) info(section string) string { return s.command("INFO", section) }

// command returns the text that a command answers, or "".
func (s *Server) command(words ...any) string {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket, MaxRetries: -1})
	defer c.Close()
	text, _ := c.Do(context.Background(), words...).Text()
	return text
}
