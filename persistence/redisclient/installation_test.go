package redisclient

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestInstallations: o are the options of a process that starts on a Redis with the given record.
func TestInstallations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		record, account string // there before, or empty
		partitions      int
		want            int
		refusal         string // part of it
	}{
		"a new one":                       {want: NewPartitions},
		"a new one of 1,024":              {partitions: 1024, want: 1024},
		"a new one of too many":           {partitions: 1025, refusal: "partitions is 1025: must be 1 to 1024"},
		"a present one":                   {record: "256 even", want: 256},
		"a present one, by the setting":   {record: "256 even", partitions: 256, want: 256},
		"a present one of another number": {record: "64 even", partitions: 16, refusal: "64, and the setting says 16:"},
		"one without letters in its tags": {record: "16", refusal: `does not know (partitions: "16")`},
		"one of a later build":            {record: "64 spread", refusal: `does not know (partitions: "64 spread")`},
		"a record that is broken":         {record: "-1", refusal: `does not know (partitions: "-1")`},
		"a lost record": {account: "{auth-ex}:accounts",
			refusal: "HSET {node}:installation partitions 'NUMBER even' "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.New(t)
			rdb := server.Client()
			if c.record != "" {
				rdb.HSet(t.Context(), "{node}:installation", "partitions", c.record)
			}
			if c.account != "" {
				rdb.ZAdd(t.Context(), c.account, redis.Z{Member: "acc_1"})
			}
			before := rdb.Keys(t.Context(), "*").Val()
			for range 2 {
				o, err := Installed(t.Context(), Options{URL: server.URL(), Partitions: c.partitions})
				if err == nil && o.Partitions != c.want {
					t.Errorf("got %d partitions, want %d", o.Partitions, c.want)
				}
				if c.refusal == "" && err == nil {
					stored := rdb.HGet(t.Context(), "{node}:installation", "partitions").Val()
					if stored != recordOf(c.want) {
						t.Errorf("recorded %q", stored)
					}
					continue
				}
				if c.refusal == "" || err == nil || !strings.Contains(err.Error(), c.refusal) {
					t.Fatalf("error %v, want %q", err, c.refusal)
				}
				if after := rdb.Keys(t.Context(), "*").Val(); len(after) != len(before) {
					t.Errorf("a refused process left %v", after)
				}
			}
		})
	}
}

func TestANewClusterHasMorePartitions(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	o, err := Installed(t.Context(), Options{URL: redistest.NewCluster(t, 3).URL()})
	if err != nil || o.Partitions != NewClusterPartitions {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestInstalledWithoutRedis(t *testing.T) {
	t.Parallel()
	_, err := Installed(t.Context(), Options{URL: "redis://127.0.0.1:" + redistest.FreePort(t)})
	if signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("without Redis: %v", err)
	}
}

// TestManyProcessesInstallOne: they start at once on an empty Redis, some with a number of their own.
func TestManyProcessesInstallOne(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	type result struct {
		o   Options
		err error
	}
	results := make(chan result)
	for i := range 16 {
		go func() {
			o, err := Installed(t.Context(), Options{URL: server.URL(), Partitions: i % 4})
			results <- result{o, err}
		}()
	}
	numbers, refused := map[int]bool{}, 0
	for range 16 {
		r := <-results
		if e, ok := errors.AsType[*signal.Error](r.err); ok && e.Kind == signal.KindConflict {
			refused++
		} else if r.err != nil {
			t.Error(r.err)
		} else {
			numbers[r.o.Partitions] = true
		}
	}
	if len(numbers) != 1 || refused < 8 {
		t.Errorf("they use %v partitions, %d were refused", numbers, refused)
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, s := range []string{"16", "64 even", "1025 even", "65", "0", "+1", "1  even", "16 odd", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := parseRecord(s)
		if ok && (recordOf(n) != s || n < 1 || n > MaxPartitions) {
			t.Errorf("%q is read as %d", s, n)
		}
	})
}

// The first record of an installation waits for replicas, and so does an account that a command
// creates after the answer that they lack it. A node starts without them.
func TestANewInstallationWaitsForReplicas(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	master, replica := redistest.New(t), redistest.New(t)
	o := Options{URL: master.URL(), WaitReplicas: 1, Timeout: 4 * time.Second}
	if _, err := Installed(t.Context(), o); !errors.Is(err, ErrReplicas) || signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("without a replica: %v", err)
	}
	o, err := Installed(t.Context(), o)
	if err != nil {
		t.Errorf("a node that starts: %v", err)
	}
	if err := openClient(t, o).Installation.Confirm(t.Context()); !errors.Is(err, ErrReplicas) {
		t.Errorf("a command, without a replica: %v", err)
	}
	replica.Follow(master)
	o.Timeout = time.Minute
	if err := openClient(t, o).Installation.Confirm(t.Context()); err != nil {
		t.Errorf("a command, with a replica: %v", err)
	}
	master.Client().Del(t.Context(), "{node}:installation")
	if _, err := Installed(t.Context(), o); err != nil {
		t.Errorf("a new installation, with a replica: %v", err)
	}
}
