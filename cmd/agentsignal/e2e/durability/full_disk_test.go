package durability

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// While the disk of Redis is full, changes are answered 503 with the reason. When there is space again the
// service recovers by itself, and after a crash of Redis all that was acknowledged is there.
//
// Redis acknowledges the command that finds the disk full, and keeps it in memory until it can write it: a crash
// before there is space again would lose that one. This test does not cover it.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	server := redistest.NewDurable(t, "--dir", disk)
	s := e2e.Start(t, e2e.TestConfig(t, server.URL()))
	trader, _ := s.Account(t)
	made := map[string]bool{}
	write := func() e2e.Answer {
		a := trader.Post("/v1/agents/seo/run", `{"asset":"standing desk","strategy":"blog_post"}`)
		if a.Status == http.StatusOK {
			made[e2e.Decode[e2e.WireSignal](t, a.Body).ID] = true
		}
		return a
	}
	write().Ok(t)

	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	var refused e2e.Answer
	e2e.Eventually(t, "a change is refused", func() bool {
		refused = write()
		return refused.Status != http.StatusOK
	})
	refused.Fails(t, "unavailable")
	if refused.Status != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" ||
		!strings.Contains(refused.Body, "redis cannot write to its disk") {
		t.Errorf("a change is answered %d %v %s", refused.Status, refused.Header, refused.Body)
	}
	e2e.Eventually(t, "the service is not ready", func() bool {
		ready := s.Client(t).Get("/readyz")
		return ready.Status == http.StatusServiceUnavailable && strings.Contains(ready.Body, "redis cannot write to its disk")
	})
	for id := range made { // reads are answered
		trader.Get("/v1/signals/" + id).Ok(t)
	}

	e2e.Must(t, os.Remove(ballast))
	s.AwaitReady(t)
	e2e.Eventually(t, "a change is taken again", func() bool { return write().Status == http.StatusOK })
	server.Kill()
	server.Restart()
	s.AwaitReady(t)
	for id := range made {
		trader.Await("/v1/signals/"+id, http.StatusOK)
	}
	t.Logf("%d signals were acknowledged", len(made))
}

// smallDisk returns a directory on a file system of its own with 16 MB, in memory. It skips the test where that
// may not be mounted.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a small disk cannot be mounted, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill writes a file until its disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	e2e.Must(t, err)
	defer f.Close()
	for _, size := range []int{1 << 20, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
			t.Fatalf("fill the disk: %v", err)
		}
	}
}
