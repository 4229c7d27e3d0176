// Package datadir is the data directory of a node: the id of the node, which one process holds at
// a time, and the Redis that the process starts if none is configured.
package datadir

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
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

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// childServers are the servers that may run as a child, the preferred one first.
var childServers = []string{"redis-server", "valkey-server"}

const (
	// childStartTimeout bounds the wait for a child to load its data: 1 GB of
	// append-only file takes some seconds.
	childStartTimeout = 2 * time.Minute
	childStopTimeout  = 8 * time.Second
	// childLockTimeout bounds the wait for the child of a killed service to end.
	childLockTimeout = 15 * time.Second
	childPoll        = 5 * time.Millisecond
	childSync        = time.Second
	// A child that dies is restarted after minChildRestart; the pause doubles up to
	// maxChildRestart.
	minChildRestart = 50 * time.Millisecond
	maxChildRestart = 5 * time.Second
	// maxSocketPath is the length of a unix socket's address without its zero byte.
	maxSocketPath = 107
	// childMask lets only this user read the files of a child.
	childMask = "077"
	// childFiles is the directory of a child's files and childLog its log, both in the
	// data directory.
	childFiles = "appendonlydir"
	childLog   = "redis.log"
	// maxListed is the number of fields up to which Redis searches a hash from end to end.
	// With its default of 512, reading one delivery of a webhook takes 4 to 14 us instead of 1.
	maxListed = "64"
)

// Embedded is a Redis that this process has started or shares.
type Embedded struct {
	url     string
	dir     string
	empty   bool
	durable bool
	stop    func(ctx context.Context) error
	pid     func() int
}

// PID returns the process of the server, or 0 if this process has started none for it.
func (e *Embedded) PID() int {
	if e.pid == nil {
		return 0
	}
	return e.pid()
}

// URL returns the server's address for Options.
func (e *Embedded) URL() string { return e.url }

// Dir returns the data directory as an absolute path.
func (e *Embedded) Dir() string { return e.dir }

// New reports whether the data directory had no data before.
func (e *Embedded) New() bool { return e.empty }

// Durable reports whether the data survive the end of the process.
func (e *Embedded) Durable() bool { return e.durable }

// Stop ends the server, unless it is shared. It keeps the data.
func (e *Embedded) Stop(ctx context.Context) error { return e.stop(ctx) }

// EmbeddedOptions are the options of StartEmbedded.
type EmbeddedOptions struct {
	Dir   string
	Share bool // use the server of a running service
	// MaxMemory is how many bytes a child may use; 0 means half of the memory of the machine
	// or of the control group of this process.
	MaxMemory int64
	Log       *slog.Logger
}

// StartEmbedded starts a Redis with its files in o.Dir: a child process where a server is
// installed, otherwise one inside this process, whose data end with it. A child writes each
// change to its append-only file before it answers, so the end of a process loses nothing.
// The file is synced every second, so a power cut loses about a second. A child that dies is
// restarted. A child whose memory is full refuses writes.
//
// If o.Share is set and a service with the same o.Dir runs, StartEmbedded uses its server and
// Stop leaves it running; without o.Share it fails then.
func StartEmbedded(ctx context.Context, o EmbeddedOptions) (*Embedded, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	if err := prepareDir(dir); err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(dir, childFiles))
	empty := errors.Is(err, fs.ErrNotExist)
	o.Dir = dir
	e, err := startServer(ctx, o)
	if err != nil {
		return nil, err
	}
	e.dir, e.empty = dir, empty
	return e, nil
}

// Found is what is in the place of a data directory.
type Found struct {
	Dir    string // absolute
	Exists bool
	Data   bool   // a child Redis has or had its files in it
	Server string // the program that a child would be; empty if none is installed
}

// Look returns what is in the place of the data directory dir, and changes nothing.
func Look(dir string) (Found, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Found{}, fmt.Errorf("find data directory: %w", err)
	}
	f := Found{Dir: dir}
	for _, name := range childServers {
		if f.Server == "" {
			f.Server, _ = exec.LookPath(name)
		}
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return f, fmt.Errorf("inspect data directory %s: %w", dir, err)
	}
	f.Exists = true
	_, err = os.Stat(filepath.Join(dir, childFiles))
	f.Data = err == nil
	return f, nil
}

// startServer is StartEmbedded in a directory that exists.
func startServer(ctx context.Context, o EmbeddedOptions) (*Embedded, error) {
	for _, name := range childServers {
		if path, err := exec.LookPath(name); err == nil {
			if o.MaxMemory, err = childMemory(o.MaxMemory); err != nil {
				return nil, err
			}
			return startChild(ctx, path, o)
		}
	}
	if o.Share {
		return nil, errors.New("no redis-server is installed, so the data are inside the process of the service: " +
			"install redis-server, or set redis.url")
	}
	return startInProcess(o.Log)
}

// ownDir is what to do where files of the data directory cannot be used.
const ownDir = "use it as the user of the service, or choose another data_dir"

// prepareDir makes the data directory, or closes the files of an existing one to other users.
// It refuses a directory to which others may write, since they could replace keys and data.
// Where others may read the directory, they may list its names.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w: choose another data_dir", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("inspect data directory: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("every user may write to the data directory %s: chmod 700 it or choose another data_dir", dir)
	}
	// Files of a server that was started without childMask.
	files, err := filepath.Glob(filepath.Join(dir, childFiles, "*"))
	if err != nil {
		return fmt.Errorf("inspect data directory: %w", err)
	}
	files = append(files, filepath.Join(dir, childFiles), filepath.Join(dir, childLog))
	for _, f := range files {
		if err := closeToOthers(f); err != nil {
			return fmt.Errorf("close data to other users: %w: %s", err, ownDir)
		}
	}
	return nil
}

// closeToOthers removes all rights on a file from users other than its owner. The file may be missing.
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
	// Every user of the machine may connect to it.
	password := rand.Text()
	m.RequireAuth(password)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start in-process redis: %w", err)
	}
	log.Warn("no redis-server is installed, so all data end with this process: " +
		"install redis-server or valkey-server 7.0 or later, or set redis.url")
	stop := func(context.Context) error { m.Close(); return nil }
	return &Embedded{url: "redis://:" + password + "@" + m.Addr(), stop: stop}, nil
}

// child is a redis-server that this process keeps running.
type child struct {
	path, dir, socket string
	lock              *os.File
	maxMemory         int64 // bytes
	log               *slog.Logger

	mu      sync.Mutex
	process *os.Process // nil while none runs
	stopped bool
	ended   chan struct{} // closed when the last process has ended
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
	if _, err := socketPath(dir); err != nil { // the former holder of the lock has removed its directory
		lock.Close()
		return nil, err
	}
	c := &child{
		path: path, dir: dir, socket: socket, lock: lock, maxMemory: o.MaxMemory, log: log,
		ended: make(chan struct{}),
	}
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

// pid returns the process, or 0 while none runs.
func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.Pid
}

// socketPath returns the socket of the server of dir: in dir, or in a private temporary
// directory if the path would be too long for a socket.
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
		return "", fmt.Errorf("inspect the directory for the socket: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(owner.Uid) != os.Getuid() || info.Mode().Perm() != 0o700 {
		return "", fmt.Errorf("others may access %s, the directory for the socket: choose a shorter data_dir", private)
	}
	return filepath.Join(private, "redis.sock"), nil
}

// removeSocketDir removes the directory that socketPath may have made for the socket.
func (c *child) removeSocketDir() {
	if private := filepath.Dir(c.socket); private != c.dir {
		os.Remove(private) // fails if it is not empty, which is fine
	}
}

// lockChild locks dir for one server. The child inherits the lock, so it stays locked until
// this process and its child have both ended.
func lockChild(ctx context.Context, dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "redis.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of the data directory: %w: %s", err, ownDir)
	}
	deadline := time.Now().Add(childLockTimeout)
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			file.Close()
			return nil, dirInUse(dir)
		}
		time.Sleep(childPoll)
	}
}

// dirInUse returns the error for a data directory that another process has locked.
func dirInUse(dir string) error {
	if path, err := filepath.Abs(dir); err == nil {
		dir = path
	}
	return fmt.Errorf("data directory %s is in use by another agentsignal process: "+
		"stop it, or give this one a data_dir of its own", dir)
}

// keep starts the server, and restarts it whenever it dies until stop is called. The kernel
// ends a child together with the thread that started it, so keep stays on its thread. It
// returns the thread afterwards, which may have started children for others.
func (c *child) keep(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.ended)
	defer c.lock.Close()
	defer c.removeSocketDir()
	restarts := backoff.Backoff{Min: minChildRestart, Max: maxChildRestart}
	for again := true; again; {
		if !panics.Guard(c.log, panics.Background, func() { again = c.serve(&started, &restarts) }) {
			time.Sleep(minChildRestart)
		}
	}
}

// serve starts the server and waits for its end. It reports whether to start another.
func (c *child) serve(started *chan<- error, restarts *backoff.Backoff) (again bool) {
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
	if time.Since(began) > maxChildRestart {
		restarts.Reset()
	}
	pause := restarts.Next()
	c.log.Warn("redis ended and is started again", "err", err, "after", pause)
	time.Sleep(pause)
	return true
}

// start starts the server. cmd is nil if the child is stopped.
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

// sync writes the append-only file to the disk every second, until the server ends for good.
// With appendfsync everysec Redis would do so itself, but while a sync is under way it would
// answer before it has written: if it is killed then, up to two seconds are lost.
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

// syncFiles syncs the file that Redis is writing. A rewrite starts a new file; the older ones
// are complete, and Redis has synced them.
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

// syncFile writes a file to the disk. The file may be missing.
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
	// Go cannot set the umask of a child alone, so a shell sets it and becomes the server.
	cmd := exec.Command("/bin/sh", "-c", "umask "+childMask+`; exec "$0" "$@"`, c.path,
		"--port", "0", "--unixsocket", c.socket, "--unixsocketperm", "700", "--dir", c.dir, "--daemonize", "no",
		"--appendonly", "yes", "--appendfsync", "no", "--save", "", "--hash-max-listpack-entries", maxListed,
		"--maxmemory", strconv.FormatInt(c.maxMemory, 10), "--maxmemory-policy", "noeviction",
		"--logfile", filepath.Join(c.dir, childLog), "--loglevel", "warning")
	cmd.ExtraFiles = []*os.File{c.lock}
	// In a process group of its own, so that Ctrl-C reaches the service alone, which then
	// stops the child. The kernel ends the child if the service is killed.
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
		if !backoff.Sleep(ctx, childPoll) {
			return fmt.Errorf("wait for redis, which logs to %s: %w", filepath.Join(c.dir, childLog), err)
		}
	}
}

// stop ends the server, which completes its file first.
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

// pingSocket returns nil if the server at socket answers, also if it cannot write to its disk.
func pingSocket(ctx context.Context, socket string) error {
	c := redis.NewClient(&redis.Options{
		Network: "unix", Addr: socket, MaxRetries: -1, PoolSize: 1, DialerRetries: 1,
	})
	defer c.Close()
	err := c.Ping(ctx).Err()
	if redis.HasErrorPrefix(err, "MISCONF") {
		return nil
	}
	if err != nil && strings.Contains(err.Error(), "no such file") {
		return errors.New("it does not listen yet")
	}
	return err
}
