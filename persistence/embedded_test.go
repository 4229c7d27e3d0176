package persistence

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func startEmbedded(t *testing.T, dir string, share bool) *Embedded {
	t.Helper()
	e, err := StartEmbedded(t.Context(), dir, share, slog.New(slog.DiscardHandler))
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
	for name, dir := range map[string]string{"short path": t.TempDir(), "path too long for a socket": filepath.Join(t.TempDir(), strings.Repeat("d", 120))} {
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
			// Killed, it comes back by itself, with its data.
			pid := serverPID(t, c)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { return c.Get(ctx, "a").Val() == "1" })
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

func TestCommandsShareTheServersOfAService(t *testing.T) {
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
	if _, err := StartEmbedded(refused, dir, false, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second service on the directory: got %v", err)
	}
	if err := service.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutAServerDataAreInTheProcess(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	e := startEmbedded(t, t.TempDir(), false)
	if e.Durable() {
		t.Error("data in the process are called durable")
	}
	if err := connect(t, e).Ping(context.Background()).Err(); err != nil {
		t.Error(err)
	}
	if err := e.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := StartEmbedded(t.Context(), t.TempDir(), true, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a command got a server of its own, which holds nothing")
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

// eventually waits until ok, at most ten seconds.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come about within ten seconds")
		}
	}
}
