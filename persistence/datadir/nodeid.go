package datadir

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// nodeFile is the file in the data directory that holds the node's id. A process locks it as
// long as it uses the directory.
const nodeFile = "node"

// maxNodeID is the length of the longest id.
const maxNodeID = 64

// NodeID is a node's identity, held by one process at a time.
type NodeID struct {
	id   string
	file *os.File
}

// OpenNodeID returns the identity kept in the data directory dir. It makes the directory and the
// identity if they are missing, and fails if another process has the identity open. The operating
// system releases it when the process ends, also when it is killed.
func OpenNodeID(dir string) (*NodeID, error) {
	if err := prepareDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, nodeFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open node id in the data directory: %w: %s", err, ownDir)
	}
	id, err := lockNodeID(file)
	if err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, dirInUse(dir)
		}
		return nil, fmt.Errorf("read node id from %s: %w", path, err)
	}
	return &NodeID{id: id, file: file}, nil
}

// lockNodeID locks the file and returns its id, which is a new one if the file was empty.
func lockNodeID(file *os.File) (string, error) {
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxNodeID+2))
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		id = "node_" + strings.ToLower(rand.Text())
		if _, err := file.WriteAt([]byte(id+"\n"), 0); err != nil {
			return "", err
		}
		return id, file.Sync()
	}
	if len(id) > maxNodeID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%q is not a node id: remove the file to get a new one", id)
	}
	return id, nil
}

// String returns the id.
func (n *NodeID) String() string { return n.id }

// bootFile has an id of the running kernel, which each start of a machine makes.
const bootFile = "/proc/sys/kernel/random/boot_id"

// Place identifies the locked file among the files of all running machines, so that a copy of the
// data directory has another place. It is empty where the system does not have the means. A process
// that has the file locked knows that no other one with the same place is running.
func (n *NodeID) Place() string {
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		return ""
	}
	info, err := n.file.Stat()
	if err != nil {
		return ""
	}
	file, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(boot, " %d %d", file.Dev, file.Ino))
	return hex.EncodeToString(sum[:16])
}

// Close releases the identity for another process. It unlocks the file itself: a process that is
// being started has a copy of the descriptor until its exec, which would keep the lock.
func (n *NodeID) Close() error {
	return errors.Join(syscall.Flock(int(n.file.Fd()), syscall.LOCK_UN), n.file.Close())
}
