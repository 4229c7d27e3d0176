package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestNodeIDIsKeptAndLocked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	n, err := OpenNodeID(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenNodeID(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second use of the directory: %v", err)
	}
	id := n.String()
	inherited, err := syscall.Dup(int(n.file.Fd())) // as a process has between its fork and its exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenNodeID(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.String() != id || !strings.HasPrefix(id, "node_") {
		t.Errorf("ids %q, then %q", id, again)
	}
	other, err := OpenNodeID(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.String() == id {
		t.Error("two directories have the same id")
	}
}

// A relative path would not say where it is.
func TestDirectoryInUseHasAnAbsolutePath(t *testing.T) {
	t.Chdir(t.TempDir())
	n, err := OpenNodeID("data")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	want, err := filepath.Abs("data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenNodeID("data"); err == nil || !strings.Contains(err.Error(), "data directory "+want+" is in use") {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestInvalidNodeIDsAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"two words":           "node one\n",
		"a control character": "a\x00b",
		"too long":            strings.Repeat("x", 65),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, nodeFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if n, err := OpenNodeID(dir); err == nil {
				t.Errorf("accepted as %q", n)
			}
		})
	}
}

func TestACopiedDirectoryHasAnotherPlace(t *testing.T) {
	t.Parallel()
	place := func(dir string) (id, place string) {
		t.Helper()
		n, err := OpenNodeID(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		return n.String(), n.Place()
	}
	dir, copied := t.TempDir(), t.TempDir()
	id, first := place(dir)
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	sameID, other := place(copied)
	_, again := place(dir)
	if first == "" || again != first || sameID != id || other == first {
		t.Errorf("places %q, then %q; a copy with the id %q for %q has %q", first, again, sameID, id, other)
	}
}
