package persistence

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/panics"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// Servers that may be started as a child, in the order in which they are looked for.
var childServers = []string{"redis-server", "valkey-server"}

const (
	// childStartTimeout bounds the wait for a child to load its data: 1 GB of
	// append-only file takes some seconds.
	childStartTimeout = 2 * time.Minute
	childStopTimeout  = 8 * time.Second
	// childLockTimeout is how long a child that outlived its service, which was
	// killed, may take to end.
	childLockTimeout = 15 * time.Second
	childPoll        = 5 * time.Millisecond
	childSync        = time.Second
	// A child that dies is started again after childRestartFirst, then after twice
	// that, to at most childRestartMost.
	childRestartFirst = 50 * time.Millisecond
	childRestartMost  = 5 * time.Second
	// maxSocketPath is what a unix socket's address holds, less its zero byte.
	maxSocketPath = 107
	// childMask leaves what a child writes to this user alone.
	childMask = "077"
	// childFiles is the directory with the files of a child, in the data directory,
	// childLog is what it logs.
	childFiles = "appendonlydir"
	childLog   = "redis.log"
	// maxListed is up to how many fields Redis searches a hash from end to end. By its
	// default of 512, a field of a webhook's records takes 4 to 14 us instead of 1.
	maxListed = "64"
)

// Embedded is a Redis that this process brought along.
type Embedded struct {
	url     string
	durable bool
	stop    func(ctx context.Context) error
	pid     func() int
}

// PID is the process that this one has started for the server, 0 if it runs in none
// of its own, or was there before.
func (e *Embedded) PID() int {
	if e.pid == nil {
		return 0
	}
	return e.pid()
}

// URL is the server's address for Options.
func (e *Embedded) URL() string { return e.url }

// Durable says that the data survive the end of the process.
func (e *Embedded) Durable() bool { return e.durable }

// Stop ends the server and keeps its data.
func (e *Embedded) Stop(ctx context.Context) error { return e.stop(ctx) }

// EmbeddedOptions say how to start a Redis.
type EmbeddedOptions struct {
	Dir   string
	Share bool // use the server of a service that runs
	// MaxMemory is how many bytes a child may use; 0 means half of what the machine, or
	// the control group of this process, has.
	MaxMemory int64
	Log       *slog.Logger
}

// StartEmbedded starts a Redis with its files in o.Dir: a child process where a
// server is installed, else one inside this process, whose data end with it. A child
// writes each change to its append-only file before it answers, so the end of a
// process loses nothing; the file is synced every second, so a power cut loses at
// most about that. A child that dies is started again. One whose memory is full refuses
// writes.
// If o.Share is set and a service with the same o.Dir runs, its server is used and
// Stop leaves it alone; otherwise that is an error.
func StartEmbedded(ctx context.Context, o EmbeddedOptions) (*Embedded, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	if err := prepareDir(dir); err != nil {
		return nil, err
	}
	for _, name := range childServers {
		if path, err := exec.LookPath(name); err == nil {
			o.Dir = dir
			if o.MaxMemory, err = childMemory(o.MaxMemory); err != nil {
				return nil, err
			}
			return startChild(ctx, path, o)
		}
	}
	if o.Share {
		return nil, errors.New("no redis-server is installed: the service keeps its data inside its own process, where no command reaches them; install redis-server, or set redis.url")
	}
	return startInProcess(o.Log)
}

// prepareDir makes the data directory, or sees to it that what is in one that is there
// is for this user alone. A directory in which others may put files is refused: they could
// replace keys and data. Others may list the names in one that is theirs to read.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w: choose another data_dir", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at data directory: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("every user may write to the data directory %s: chmod 700 it, or choose another data_dir", dir)
	}
	// Files of a server that was started without childMask.
	files, err := filepath.Glob(filepath.Join(dir, childFiles, "*"))
	if err != nil {
		return fmt.Errorf("look at data directory: %w", err)
	}
	files = append(files, filepath.Join(dir, childFiles), filepath.Join(dir, childLog))
	for _, f := range files {
		if err := closeToOthers(f); err != nil {
			return fmt.Errorf("close data to other users: %w", err)
		}
	}
	return nil
}

// closeToOthers takes all rights on a file, if there is one, from others than its owner.
func closeToOthers(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().Type()&os.ModeSymlink == 0 && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(path, info.Mode().Perm()&^0o077)
	}
	return err
}

func startInProcess(log *slog.Logger) (*Embedded, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	// It listens where every user of the machine may connect.
	password := rand.Text()
	m.RequireAuth(password)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start in-process redis: %w", err)
	}
	log.Warn("no redis-server is installed: data are kept in this process and end with it; install redis-server or valkey-server 7.0 or later, or set redis.url")
	return &Embedded{url: "redis://:" + password + "@" + m.Addr(), stop: func(context.Context) error { m.Close(); return nil }}, nil
}

// child is a redis-server that this process keeps running.
type child struct {
	path, dir, socket string
	lock              *os.File
	memory            int64 // bytes that it may use
	log               *slog.Logger

	mu      sync.Mutex
	process *os.Process // nil while none runs
	stopped bool
	ended   chan struct{} // closed when the last one has ended
}

func startChild(ctx context.Context, path string, o EmbeddedOptions) (*Embedded, error) {
	dir, log := o.Dir, o.Log
	socket, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	url := "unix://" + socket
	redisclient.SetLogger(log)
	if o.Share && pingSocket(ctx, socket) == nil {
		return &Embedded{url: url, durable: true, stop: func(context.Context) error { return nil }}, nil
	}
	lock, err := lockChild(ctx, dir)
	if err != nil {
		return nil, err
	}
	if _, err := socketPath(dir); err != nil { // whoever had the lock has removed its directory
		lock.Close()
		return nil, err
	}
	c := &child{path: path, dir: dir, socket: socket, lock: lock, memory: o.MaxMemory, log: log, ended: make(chan struct{})}
	started := make(chan error, 1)
	go c.keep(started)
	go c.sync()
	if err = <-started; err == nil {
		err = c.wait(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.stop(context.WithoutCancel(ctx)))
	}
	return &Embedded{url: url, durable: true, stop: c.stop, pid: c.pid}, nil
}

// pid returns the process, 0 while none runs.
func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.Pid
}

// socketPath returns where the server of dir listens: in dir, or in a private
// directory for temporary files if the path would be too long for a socket.
func socketPath(dir string) (string, error) {
	if path := filepath.Join(dir, "redis.sock"); len(path) <= maxSocketPath {
		return path, nil
	}
	sum := sha256.Sum256([]byte(dir))
	private := filepath.Join(os.TempDir(), "agentsignal-"+hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(private, 0o700); err != nil {
		return "", fmt.Errorf("make directory for the socket: %w", err)
	}
	info, err := os.Lstat(private)
	if err != nil {
		return "", fmt.Errorf("look at the directory for the socket: %w", err)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(owner.Uid) != os.Getuid() || info.Mode().Perm() != 0o700 {
		return "", fmt.Errorf("%s must be a directory of this user alone, for a socket; or choose a shorter data_dir", private)
	}
	return filepath.Join(private, "redis.sock"), nil
}

// removeSocketDir removes the directory that socketPath has made for the socket, if
// it has.
func (c *child) removeSocketDir() {
	if private := filepath.Dir(c.socket); private != c.dir {
		os.Remove(private) // fails if something is left in it, which is fine
	}
}

// lockChild locks dir for one server. The child inherits the lock, so it is free
// only when the process that asked and its child have both ended.
func lockChild(ctx context.Context, dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "redis.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of the data directory: %w: choose another data_dir", err)
	}
	deadline := time.Now().Add(childLockTimeout)
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			file.Close()
			return nil, fmt.Errorf("data directory %s is in use by another agentsignal process: stop it, or give this one a data_dir of its own", dir)
		}
		time.Sleep(childPoll)
	}
}

// keep starts the server and, until stop, starts it again when it has died. The
// kernel ends a child when the thread that started it ends, so keep stays on one,
// and gives it back: it may have started children of others before.
func (c *child) keep(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.ended)
	defer c.lock.Close()
	defer c.removeSocketDir()
	pause := childRestartFirst
	for again := true; again; {
		if !panics.Guard(c.log, panics.Background, func() { again = c.serve(&started, &pause) }) {
			time.Sleep(childRestartFirst)
		}
	}
}

// serve starts the server and waits for its end. It reports whether to start another.
func (c *child) serve(started *chan<- error, pause *time.Duration) (again bool) {
	began := time.Now()
	cmd, err := c.start()
	if *started != nil {
		*started <- err
		if *started = nil; err != nil {
			return false
		}
	}
	if cmd != nil {
		err = cmd.Wait()
	}
	c.mu.Lock()
	c.process = nil
	stopped := c.stopped
	c.mu.Unlock()
	if stopped {
		return false
	}
	if time.Since(began) > childRestartMost {
		*pause = childRestartFirst
	}
	c.log.Warn("redis ended and is started again", "err", err, "after", *pause)
	time.Sleep(*pause)
	*pause = min(2*(*pause), childRestartMost)
	return true
}

// start starts the server, unless the child is stopped: then cmd is nil.
func (c *child) start() (cmd *exec.Cmd, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, nil
	}
	cmd = c.command()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.process = cmd.Process
	return cmd, nil
}

// sync has the system write the append-only file to the disk every second, until the
// server ends for good. With appendfsync everysec Redis would do so itself, but it
// then answers before it has written while a sync is under way: a process killed in
// that moment loses up to two seconds.
func (c *child) sync() {
	ticker := time.NewTicker(childSync)
	defer ticker.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-ticker.C:
		}
		panics.Guard(c.log, panics.Background, c.syncFiles)
	}
}

// syncFiles syncs what Redis writes now. A rewrite starts a new file; older ones are
// complete and synced by Redis.
func (c *child) syncFiles() {
	files, err := filepath.Glob(filepath.Join(c.dir, childFiles, "*.incr.aof"))
	if err == nil {
		for _, f := range files {
			err = errors.Join(err, syncFile(f))
		}
	}
	if err != nil {
		c.log.Error("the append-only file is not synced", "err", err)
	}
}

// syncFile has the system write a file to the disk. A file that is gone is fine.
func syncFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return syscall.Fdatasync(int(f.Fd()))
}

func (c *child) command() *exec.Cmd {
	// The shell gives its place to the server: Go has no umask for a child alone.
	cmd := exec.Command("/bin/sh", "-c", "umask "+childMask+`; exec "$0" "$@"`, c.path, "--port", "0", "--unixsocket", c.socket, "--unixsocketperm", "700", "--dir", c.dir,
		"--daemonize", "no", "--appendonly", "yes", "--appendfsync", "no", "--save", "",
		"--hash-max-listpack-entries", maxListed, "--maxmemory", strconv.FormatInt(c.memory, 10), "--maxmemory-policy", "noeviction", "--logfile", filepath.Join(c.dir, childLog), "--loglevel", "warning")
	cmd.ExtraFiles = []*os.File{c.lock}
	// A process group of its own, so that Ctrl-C ends the service first and this
	// after it; and an end with the service, however that ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return cmd
}

// wait returns when the server has loaded its data.
func (c *child) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, childStartTimeout)
	defer cancel()
	for {
		err := pingSocket(ctx, c.socket)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for redis, whose words are in %s: %w", filepath.Join(c.dir, childLog), err)
		case <-time.After(childPoll):
		}
	}
}

// stop ends the server, which writes its file to the end first.
func (c *child) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, childStopTimeout)
	defer cancel()
	c.mu.Lock()
	c.stopped = true
	process := c.process
	c.mu.Unlock()
	if process != nil {
		_ = process.Signal(syscall.SIGTERM)
	}
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		if process != nil {
			_ = process.Kill()
		}
		<-c.ended
		return fmt.Errorf("stop redis: %w", ctx.Err())
	}
}

// pingSocket asks the server at socket for a sign of life.
func pingSocket(ctx context.Context, socket string) error {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1, DialTimeout: redisclient.DialTimeout, PoolSize: 1, DialerRetries: 1})
	defer c.Close()
	err := c.Ping(ctx).Err()
	if err != nil && strings.Contains(err.Error(), "no such file") {
		return errors.New("it does not listen yet")
	}
	return err
}
