// Package redistest starts a Redis server for one test.
//
// The server is redis-server, or what the environment variable REDIS_SERVER names: the path of
// another version or of Valkey.
//
// The service connects to it as User, who has the rights of the service in deploy/redis/users.acl.
//
// With the environment variable REDISTEST=in-process it is the server inside the process, which
// the service uses where no redis-server is installed. A test that needs a server process then
// fails.
package redistest

import (
	"cmp"
	"context"
	encoding "encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// startTimeout bounds the wait for a server to answer.
const startTimeout = time.Minute

// Server is a redis-server of a test's own on a private socket.
type Server struct {
	tb     testing.TB
	dir    string
	socket string
	args   []string
	cmd    *exec.Cmd
	ended  chan struct{}        // closed when the process has ended
	denied bool                 // Deny has been called
	inside *miniredis.Miniredis // nil: the other fields are of a process
}

// InProcess is the value of the environment variable Variable that asks for servers in
// the process of the test.
const (
	Variable  = "REDISTEST"
	InProcess = "in-process"
)

// startInside starts a server in this process, as package persistence does.
func startInside(tb testing.TB) *Server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.Close)
	return &Server{tb: tb, inside: m}
}

// New starts a server without persistence, with additional arguments. It is stopped when the
// test ends. The test fails if no redis-server is installed.
func New(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return start(tb, append([]string{"--save", "", "--appendonly", "no"}, args...)...)
}

// NewDurable starts a server with an append-only file. It writes each change before it replies,
// so the data survive Kill and Restart. (With everysec it would not during a sync.)
func NewDurable(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return start(tb, append([]string{"--save", "", "--appendonly", "yes", "--appendfsync", "no"}, args...)...)
}

// NewConfigured starts a server with a configuration file, and additional arguments.
func NewConfigured(tb testing.TB, file string, args ...string) *Server {
	tb.Helper()
	return startProcess(tb, []string{file}, args...)
}

// NewSentinel starts a sentinel with a configuration file of the given lines.
func NewSentinel(tb testing.TB, lines ...string) *Server {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "sentinel.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return startProcess(tb, []string{file, "--sentinel"})
}

func start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	if os.Getenv(Variable) == InProcess {
		return startInside(tb)
	}
	return startProcess(tb, nil, append(userArgs(tb), args...)...)
}

// startProcess starts a redis-server; its command line begins with the arguments first.
func startProcess(tb testing.TB, first []string, args ...string) *Server {
	tb.Helper()
	s := newServer(tb, first, args)
	s.Restart()
	return s
}

// newServer returns a server that is not started. It is ended when the test ends.
func newServer(tb testing.TB, first, args []string) *Server {
	tb.Helper()
	path := binary(tb)
	// Not tb.TempDir: the path of a socket has at most 107 bytes.
	dir, err := newDir()
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{tb: tb, dir: dir, socket: filepath.Join(dir, "s")}
	s.args = slices.Concat([]string{path}, first, []string{
		"--port", "0", "--unixsocket", s.socket, "--dir", dir, "--daemonize", "no",
		"--logfile", filepath.Join(dir, "log"),
	}, args)
	tb.Cleanup(func() {
		s.checkUser()
		s.Kill()
		os.RemoveAll(dir)
	})
	return s
}

// ServerVariable is the environment variable that names the server's binary.
const ServerVariable = "REDIS_SERVER"

// binary returns the path of the server.
func binary(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv(ServerVariable), "redis-server"))
	if err != nil {
		tb.Fatalf("a server is needed for this test: install redis-server, or name one by %s: %v", ServerVariable, err)
	}
	return path
}

// shm is where Linux keeps files in memory, and roomInShm the free space that a server needs there.
const (
	shm       = "/dev/shm"
	roomInShm = 1 << 30
)

// newDir makes a directory for a server, in memory if there is room: a busy disk would stop the
// server for seconds.
func newDir() (string, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(shm, &stat); err == nil && stat.Bavail*uint64(stat.Bsize) >= roomInShm {
		if dir, err := os.MkdirTemp(shm, "redistest"); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", "redistest")
}

// URL returns the server's address for persistence.Options, with User.
func (s *Server) URL() string {
	if s.inside != nil {
		return "redis://" + s.inside.Addr()
	}
	return s.URLFor(User, "any")
}

// URLFor is URL with a user, which may be empty, and a password.
func (s *Server) URLFor(user, password string) string {
	return "unix://" + user + ":" + password + "@" + s.socket
}

// Dir returns the server's directory.
func (s *Server) Dir() string { return s.dir }

// Client returns a client of the server that may use all commands, closed when the test ends.
func (s *Server) Client() *redis.Client {
	address := "unix://" + s.socket
	if s.inside != nil {
		address = s.URL()
	}
	o, err := redis.ParseURL(address)
	if err != nil {
		s.tb.Fatal(err)
	}
	o.MaxRetries = -1
	o.ReadTimeout = time.Minute // a busy machine is no fault
	c := redis.NewClient(o)
	s.tb.Cleanup(func() { c.Close() })
	return c
}

// mustBeAProcess fails the test if the server is inside this process.
func (s *Server) mustBeAProcess() {
	s.tb.Helper()
	if s.inside != nil {
		s.tb.Fatal("this needs a server in a process of its own")
	}
}

// Kill ends the server at once, as kill -9 does. Restart may start it again.
func (s *Server) Kill() {
	s.mustBeAProcess()
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

// Pause stops the server's process and keeps its connections open, until Continue.
func (s *Server) Pause() {
	s.mustBeAProcess()
	s.cmd.Process.Signal(syscall.SIGSTOP)
}

// Continue ends a Pause.
func (s *Server) Continue() { s.cmd.Process.Signal(syscall.SIGCONT) }

// Eventually waits until ok returns true.
func Eventually(tb testing.TB, ok func() bool) {
	tb.Helper()
	eventually(tb, 20*time.Second, 2*time.Millisecond, ok)
}

func eventually(tb testing.TB, within, every time.Duration, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(every) {
		if time.Now().After(deadline) {
			tb.Fatalf("it did not happen within %s", within)
		}
	}
}

// Restart starts the server after Kill and waits until it answers.
func (s *Server) Restart() {
	s.tb.Helper()
	if !s.start() {
		s.tb.Fatalf("redis-server does not start:\n%s", s.Log())
	}
}

// start starts the process and waits until it answers. It returns false if the process ends.
func (s *Server) start() bool {
	s.tb.Helper()
	cmd, ended := exec.Command(s.args[0], s.args[1:]...), make(chan struct{})
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = s.clock()
	if err := cmd.Start(); err != nil {
		s.tb.Fatalf("start redis-server: %v", err)
	}
	go func() {
		cmd.Wait()
		close(ended)
	}()
	s.cmd, s.ended = cmd, ended
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket, MaxRetries: -1})
	defer c.Close()
	for deadline := time.Now().Add(startTimeout); ; {
		err := c.Ping(context.Background()).Err()
		if err == nil || redis.HasErrorPrefix(err, "NOAUTH") {
			return true
		}
		if time.Now().After(deadline) {
			s.tb.Fatalf("redis-server does not answer: %v\n%s", err, s.Log())
		}
		select {
		case <-ended:
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Log returns what the server has logged.
func (s *Server) Log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(text)
}

// clock returns the environment of a server, and makes its clock's file. It is nil without OwnClocks.
func (s *Server) clock() []string {
	library := os.Getenv(clockLibrary)
	if library == "" {
		return nil
	}
	if _, err := os.Stat(s.clockFile()); err != nil {
		s.SetClock(0)
	}
	return append(os.Environ(), "LD_PRELOAD="+library, clockFile+"="+s.clockFile())
}

func (s *Server) clockFile() string { return filepath.Join(s.dir, "clock") }

// SetClock lets the server's clock be ahead of that of the machine, or behind if that is negative, from now on,
// also after a Restart: what TIME answers, the ids of entries and when keys expire. It needs OwnClocks.
func (s *Server) SetClock(ahead time.Duration) {
	s.tb.Helper()
	s.mustBeAProcess()
	f, err := os.OpenFile(s.clockFile(), os.O_CREATE|os.O_WRONLY, 0o600) // not truncated: the server has mapped it
	if err == nil {
		_, err = f.Write(encoding.NativeEndian.AppendUint64(nil, uint64(ahead)))
		f.Close()
	}
	if err != nil {
		s.tb.Fatalf("set the clock of a server: %v", err)
	}
}

// Deny changes the rights of User: commands that the service needs may then be refused.
func (s *Server) Deny(rules ...string) {
	s.tb.Helper()
	s.denied = true
	if err := s.Client().ACLSetUser(context.Background(), User, rules...).Err(); err != nil {
		s.tb.Fatalf("change rights: %v", err)
	}
}

// checkUser fails the test if the server has refused User something, except after Deny.
func (s *Server) checkUser() {
	if s.denied || s.cmd == nil {
		return
	}
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket, MaxRetries: -1, DialTimeout: time.Second})
	defer c.Close()
	refused, _ := c.ACLLog(context.Background(), maxRefused).Result() // none without an answer
	for _, r := range refused {
		// The library sends it by sentinels; Redis 7.0, where no right to it can be given, does not know it.
		if r.Username == User && r.Object != "client|setinfo" {
			s.tb.Errorf("%s of deploy/redis/users.acl is refused the %s %q", User, r.Reason, r.Object)
		}
	}
}

// maxRefused is how many refusals checkUser reads.
const maxRefused = 128
