package persistence

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/node_announce.lua
var nodeAnnounceText string

var nodeAnnounceScript = redis.NewScript(nodeAnnounceText)

// nodeFile is the file of the data directory that holds the node's id, and whose
// lock says that a process uses the directory.
const nodeFile = "node"

// maxNodeID bounds what is read from the file.
const maxNodeID = 64

// NodeID is a node's identity, held by one process at a time.
type NodeID struct {
	id   string
	file *os.File
}

// OpenNodeID returns the identity kept in the data directory dir, which is made if
// there is none; so is the identity. It fails if another process has it open. The
// operating system frees it when the process ends, however it ends.
func OpenNodeID(dir string) (*NodeID, error) {
	if err := prepareDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, nodeFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open node id in the data directory: %w: choose another data_dir", err)
	}
	id, err := lockNodeID(file)
	if err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another agentsignal process: stop it, or give this one a data_dir of its own", dir)
		}
		return nil, fmt.Errorf("read node id from %s: %w", path, err)
	}
	return &NodeID{id: id, file: file}, nil
}

// lockNodeID locks the file and returns the id in it, a new one if it is empty.
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
		return "", fmt.Errorf("%q is no node id: remove the file to get a new one", id)
	}
	return id, nil
}

// String returns the id.
func (n *NodeID) String() string { return n.id }

// Close frees the identity for another process.
func (n *NodeID) Close() error { return n.file.Close() }

// AnnounceNode says that node is live for ttl, and returns all live nodes, node
// among them. alone says that no other may be. KindConflict, "not_alone": another
// node is live, and one of the two is to be alone.
func (s *logStore) AnnounceNode(ctx context.Context, node string, ttl time.Duration, alone bool) ([]string, error) {
	mode := "many"
	if alone {
		mode = "alone"
	}
	answer, err := nodeAnnounceScript.Run(ctx, s.RDB, []string{redisclient.NodesKey()}, node, mode, ttl.Milliseconds()).StringSlice()
	if err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("announce node: %w", err))
	}
	if len(answer) < 2 {
		return nil, fmt.Errorf("announce node: answer has %d parts", len(answer))
	}
	if answer[0] == "0" {
		return nil, &signal.Error{Kind: signal.KindConflict, Code: "not_alone",
			Message: fmt.Sprintf("node %s uses the same Redis, and not both have the setting cluster: true: set it for both, stop one, or give one another redis.url", answer[1])}
	}
	live := answer[1:] // in the order in which they renewed
	slices.Sort(live)
	return live, nil
}

// LeaveNode says that node is live no more.
func (s *logStore) LeaveNode(ctx context.Context, node string) error {
	if err := s.RDB.ZRem(ctx, redisclient.NodesKey(), node+" many", node+" alone").Err(); err != nil {
		return redisclient.Unavailable(fmt.Errorf("withdraw node: %w", err))
	}
	return nil
}

// installedPartitions is the field of the installation's record that holds the
// number of partitions.
const installedPartitions = "partitions"

// Install records what is fixed at the first start of all and compares it with
// this process' settings. KindConflict: they differ, and this process may not run.
func (s *logStore) Install(ctx context.Context) error {
	want := strconv.Itoa(s.Partitions())
	pipe := s.RDB.TxPipeline()
	pipe.HSetNX(ctx, redisclient.InstallationKey(), installedPartitions, want)
	got := pipe.HGet(ctx, redisclient.InstallationKey(), installedPartitions)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return redisclient.Unavailable(fmt.Errorf("read installation: %w", err))
	}
	if got.Val() != want {
		return &signal.Error{Kind: signal.KindConflict, Code: "other_partitions",
			Message: fmt.Sprintf("this Redis was set up with partitions: %s, and the setting says %s: it cannot be changed later", got.Val(), want)}
	}
	return nil
}
