package persistence

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// scriptCall is a call of a script and the keys as it found them.
type scriptCall struct {
	keys  []string // without repetitions
	all   []string
	args  []any
	found map[string]string // values of DUMP
}

// scriptCalls is a hook that keeps a call of each script by its hash: one of those that found the most
// keys. It does not see append.lua and plain.lua of the log, which has connections of its own.
type scriptCalls struct {
	rdb   *redis.ClusterClient // without the hook
	mu    sync.Mutex
	calls map[string]scriptCall
}

func (*scriptCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *scriptCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.keep(ctx, cmd)
		return next(ctx, cmd)
	}
}

func (s *scriptCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.keep(ctx, cmd)
		}
		return next(ctx, cmds)
	}
}

// keep notes cmd if it runs a script. Each is tried by its hash first.
func (s *scriptCalls) keep(ctx context.Context, cmd redis.Cmder) {
	if cmd.Name() != "evalsha" {
		return
	}
	words := cmd.Args()
	hash, n := words[1].(string), words[2].(int)
	call := scriptCall{args: words[3+n:], found: map[string]string{}}
	for _, key := range words[3 : 3+n] {
		call.all = append(call.all, key.(string))
	}
	call.keys = slices.Compact(slices.Sorted(slices.Values(call.all)))
	dumps := make([]*redis.StringCmd, len(call.keys))
	_, _ = s.rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error { // one that is missing is an error
		for i, key := range call.keys {
			dumps[i] = pipe.Dump(ctx, key)
		}
		return nil
	})
	for i, dump := range dumps {
		if dump.Err() == nil {
			call.found[call.keys[i]] = dump.Val()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.calls[hash]; !ok || len(call.found) > len(known.found) {
		s.calls[hash] = call
	}
}

// repeatWhileSlotsMove repeats the call of each script while every second of its keys is on another node:
// with several keys it is refused and changes nothing. When the slot has been moved it succeeds. A script
// of any package that was not called is a failure.
func (s *scriptCalls) repeatWhileSlotsMove(t *testing.T, cluster *redistest.Cluster) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{cluster.Nodes()[0].Options().Addr},
		MaxRedirects: 5, MinRetryBackoff: -1, MaxRetryBackoff: -1})
	defer rdb.Close()
	for _, node := range cluster.Nodes() {
		if err := node.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// Those that the store runs only with more records than the test has, or with a member without one.
	k := redisclient.Keys{}
	few := map[string]scriptCall{
		"deliveries/scripts/pending_from.lua": {args: []any{1},
			keys: []string{k.FailedKey(0, "w"), k.RecordedKey(0, "w"), k.SucceededKey(0, "w")}},
		"signals/scripts/block_append.lua": {args: []any{1, "0-0", "1-1", "block", 1},
			keys: []string{k.BlocksKey(0), k.EpochKey(0)}},
		"schedules/scripts/undue.lua": {args: []any{"acc_1 sch_1", "sch_1"},
			keys: []string{k.SchedulesDueKey(0), k.SchedulesKey(0, "acc_1")}},
	}
	for path, script := range allScripts(t) {
		call, ok := s.calls[script.Hash()]
		if by, known := few[path]; !ok && known {
			call, ok, call.all = by, true, by.keys
		}
		switch {
		case path == filepath.Join("eventlog", "scripts", "append.lua"), // TestHalfMovedSlots has both
			path == filepath.Join("eventlog", "scripts", "plain.lua"):
		case !ok:
			t.Errorf("no test of the records on a cluster runs %s", path)
		default:
			call = call.in(path)
			t.Run(path, func(t *testing.T) { call.repeat(t, script, rdb, cluster) })
		}
	}
}

// in returns the call with another hash tag, so that each slot is moved once: the servers need not have
// agreed on its last move.
func (c *scriptCall) in(tag string) scriptCall {
	former, _, _ := strings.Cut(c.keys[0], "}")
	rename := func(key string) string { return "{" + tag + strings.TrimPrefix(key, former) }
	moved := scriptCall{args: c.args, found: map[string]string{}}
	for _, key := range c.keys {
		moved.keys = append(moved.keys, rename(key))
	}
	for _, key := range c.all {
		moved.all = append(moved.all, rename(key))
	}
	for key, value := range c.found {
		moved.found[rename(key)] = value
	}
	return moved
}

func (c *scriptCall) repeat(t *testing.T, script *redisclient.Lua, rdb *redis.ClusterClient, cluster *redistest.Cluster) {
	ctx := t.Context()
	for key, value := range c.found {
		if err := rdb.Restore(ctx, key, 0, value).Err(); err != nil {
			t.Fatalf("restore %s: %v", key, err)
		}
	}
	other := c.keys[0] + ":other" // so that the slot is never empty
	if err := rdb.Set(ctx, other, "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	own := 0
	finish := cluster.MoveSome(other, func(_ int, key string) bool {
		if _, ok := c.found[key]; ok {
			own++
		}
		return key != other && own%2 == 1
	})
	ownContents := func() map[string]string {
		all := contents(t, cluster)
		maps.DeleteFunc(all, func(key, _ string) bool { return !slices.Contains(c.keys, key) })
		return all
	}
	before := ownContents()
	err := script.Eval(ctx, rdb, c.all, c.args...).Err()
	if len(c.keys) > 1 {
		if !redis.HasErrorPrefix(err, "TRYAGAIN") && !redis.HasErrorPrefix(err, "ASK") {
			t.Errorf("with %d of %d keys it is not refused: %v", len(c.found), len(c.keys), err)
		}
		if d := cmp.Diff(before, ownContents()); d != "" {
			t.Errorf("it is refused and changes something (-before +after):\n%s", d)
		}
	} else if err != nil && !errors.Is(err, redis.Nil) {
		t.Errorf("with one key: %v", err)
	}
	finish()
	if err := script.Eval(ctx, rdb, c.all, c.args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		t.Errorf("after the move: %v", err)
	}
}

// allScripts returns the scripts by the path of their last file. A file that no script of the process has
// is a failure.
func allScripts(t *testing.T) map[string]*redisclient.Lua {
	t.Helper()
	all := map[string]*redisclient.Lua{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".lua") || filepath.Base(path) == "declared_keys.lua" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		used := false
		for _, script := range redisclient.Scripts() {
			used = used || strings.Contains(script.Text(), string(text))
			if strings.HasSuffix(script.Text(), string(text)) {
				all[path] = script
			}
		}
		if !used {
			t.Errorf("no script of this test has %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
