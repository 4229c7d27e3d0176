package datadir

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// rootWith returns the root of a file system with files.
func rootWith(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestMemoryOfControlGroups(t *testing.T) {
	t.Parallel()
	const memory = "sys/fs/cgroup/memory"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no groups", nil, math.MaxInt64},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/\n", memory + ".max": "max\n"}, math.MaxInt64},
		{"its own limit", map[string]string{"proc/self/cgroup": "0::/system.slice/a.service\n",
			"sys/fs/cgroup/system.slice/a.service/memory.max": "1073741824\n",
			"sys/fs/cgroup/system.slice/memory.max":           "max\n"}, 1 << 30},
		{"that of a group above", map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "4096\n", "sys/fs/cgroup/a/memory.max": "2048\n"}, 2048},
		{"in a container", map[string]string{"proc/self/cgroup": "0::/docker/123\n", memory + ".max": "4096\n"}, 4096},
		{"version 1", map[string]string{"proc/self/cgroup": "5:cpu:/\n4:memory:/docker/1\n0::/\n",
			memory + "/docker/1/memory.limit_in_bytes": "4096",
			memory + "/memory.limit_in_bytes":          "9223372036854771712"}, 4096},
		{"nonsense", map[string]string{"proc/self/cgroup": "x\n:::\n0::/../..\n",
			memory + ".max": "-1\n"}, math.MaxInt64},
	} {
		if got := cgroupMemory(rootWith(t, c.files)); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// FuzzCgroupMemory: for any content of the files the limit is a positive number of bytes.
func FuzzCgroupMemory(f *testing.F) {
	f.Add("0::/a/b\n", "4096\n")
	f.Add("4:memory:/../x\n", "max")
	f.Fuzz(func(t *testing.T, groups, limit string) {
		files := map[string]string{"proc/self/cgroup": groups, "sys/fs/cgroup/memory.max": limit}
		if got := cgroupMemory(rootWith(t, files)); got <= 0 {
			t.Errorf("got %d", got)
		}
	})
}

// The memory of a child Redis is bounded, and it evicts nothing.
func TestChildMemoryIsLimited(t *testing.T) {
	t.Parallel()
	limit := func(set int64) int64 {
		o := EmbeddedOptions{Dir: t.TempDir(), MaxMemory: set, Log: slog.New(slog.DiscardHandler)}
		e, err := StartEmbedded(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Stop(context.Background())
		if !e.Durable() {
			t.Fatal("redis-server is needed for this test: install the package redis-server")
		}
		settings, err := connect(t, e).ConfigGet(t.Context(), "maxmemory*").Result()
		if err != nil || settings["maxmemory-policy"] != "noeviction" {
			t.Errorf("settings %v, %v", settings, err)
		}
		n, err := strconv.ParseInt(settings["maxmemory"], 10, 64)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if got := limit(123_456_789); got != 123_456_789 {
		t.Errorf("the limit is %d, want what was set", got)
	}
	want, err := childMemory(0)
	if got := limit(0); got != want || err != nil || got < 1<<20 {
		t.Errorf("the limit is %d, want %d of this machine, %v", got, want, err)
	}
}
