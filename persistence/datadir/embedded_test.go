package datadir

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func tryEmbedded(ctx context.Context, dir string, share bool) (*Embedded, error) {
	return StartEmbedded(ctx, EmbeddedOptions{Dir: dir, Share: share, Log: slog.New(slog.DiscardHandler)})
}

func startEmbedded(t *testing.T, dir string, share bool) *Embedded {
	t.Helper()
	e, err := tryEmbedded(t.Context(), dir, share)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func connect(t *testing.T, e *Embedded) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries = -1
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestChildKeepsDataOverStopAndKill(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	for name, dir := range map[string]string{"short path": t.TempDir(), "path too long for a socket": long} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			e := startEmbedded(t, dir, false)
			if !e.Durable() {
				t.Fatal("redis-server is needed for this test: install the package redis-server")
			}
			c := connect(t, e)
			if err := c.Set(ctx, "a", "1", 0).Err(); err != nil {
				t.Fatal(err)
			}
			// After a kill it restarts by itself, with its data.
			pid := serverPID(t, c)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			redistest.Eventually(t, func() bool { return c.Get(ctx, "a").Val() == "1" })
			if again := serverPID(t, c); again == pid {
				t.Error("the killed server answers")
			}
			if err := e.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			e = startEmbedded(t, dir, false)
			if got := connect(t, e).Get(ctx, "a").Val(); got != "1" {
				t.Errorf("after stop and start: got %q, want 1", got)
			}
			if err := e.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			socket := strings.TrimPrefix(e.URL(), "unix://")
			if _, err := os.Stat(filepath.Dir(socket)); (err == nil) != (filepath.Dir(socket) == dir) {
				t.Errorf("after the end the directory of %s is found: %v", socket, err)
			}
		})
	}
}

func TestCommandsShareServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	service := startEmbedded(t, dir, false)
	command := startEmbedded(t, dir, true)
	if service.URL() != command.URL() {
		t.Errorf("the command uses %s, the service %s", command.URL(), service.URL())
	}
	if err := command.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := connect(t, service).Ping(ctx).Err(); err != nil {
		t.Errorf("the command's end ended the service's server: %v", err)
	}
	refused, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := tryEmbedded(refused, dir, false); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second service on the directory: got %v", err)
	}
	if err := service.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

// A server that cannot write to its disk refuses PING, too: commands must find it nonetheless.
func TestServerWithoutDiskIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startEmbedded(t, dir, false)
	c := connect(t, e)
	// A directory where the file of a snapshot belongs makes all snapshots fail.
	if err := os.MkdirAll(filepath.Join(dir, "dump.rdb", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(t.Context(), "save", "3600 1").Err(); err != nil {
		t.Fatal(err)
	}
	c.BgSave(t.Context())
	redistest.Eventually(t, func() bool { return redis.HasErrorPrefix(c.Ping(t.Context()).Err(), "MISCONF") })
	shared, err := tryEmbedded(t.Context(), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if shared.PID() != 0 {
		t.Error("a second server was started")
	}
	if err := c.ConfigSet(t.Context(), "save", "").Err(); err != nil { // else it does not end without a snapshot
		t.Fatal(err)
	}
	if err := e.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInProcessServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	e := startEmbedded(t, t.TempDir(), false)
	if e.Durable() {
		t.Error("data in the process are called durable")
	}
	if err := connect(t, e).Ping(context.Background()).Err(); err != nil {
		t.Error(err)
	}
	// Every user of the machine may connect to it.
	o, err := redis.ParseURL(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"", "wrong"} {
		c := redis.NewClient(&redis.Options{Addr: o.Addr, Password: password, MaxRetries: -1})
		if err := c.Ping(context.Background()).Err(); err == nil {
			t.Errorf("with the password %q it answers", password)
		}
		c.Close()
	}
	if err := e.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := tryEmbedded(t.Context(), t.TempDir(), true); err == nil {
		t.Error("a command got an empty server of its own")
	}
}

// In a data directory that others may enter, all files are for this user alone, including
// earlier ones.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, f := range []string{dir, filepath.Join(dir, childFiles)} {
		if err := os.MkdirAll(f, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(f, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(dir, childLog), filepath.Join(dir, childFiles, "old")} {
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	node, err := OpenNodeID(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	e := startEmbedded(t, dir, false)
	if !e.Durable() {
		t.Fatal("redis-server is needed for this test: install the package redis-server")
	}
	c := connect(t, e)
	if err := errors.Join(c.Set(t.Context(), "a", "1", 0).Err(), c.BgRewriteAOF(t.Context()).Err()); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, func() bool {
		return strings.Contains(c.Info(t.Context(), "persistence").Val(), "aof_rewrite_in_progress:0")
	})
	files := 0
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		files++
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil || files < 6 {
		t.Errorf("%d files, %v", files, err)
	}
	if err := e.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenNodeID(dir); err == nil || !strings.Contains(err.Error(), "data_dir") {
		t.Errorf("a directory that every user may write to: %v", err)
	}
	if _, err := tryEmbedded(t.Context(), dir, false); err == nil || !strings.Contains(err.Error(), "data_dir") {
		t.Errorf("a directory that every user may write to: %v", err)
	}
}

func serverPID(t *testing.T, c *redis.Client) int {
	t.Helper()
	info, err := c.InfoMap(context.Background(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	for _, r := range info["Server"]["process_id"] {
		pid = 10*pid + int(r-'0')
	}
	if _, err := os.FindProcess(pid); err != nil || pid == 0 {
		t.Fatalf("pid %d: %v", pid, err)
	}
	return pid
}
