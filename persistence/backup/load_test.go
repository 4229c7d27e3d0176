package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// written is a record of a file.
type written struct {
	kind   kind
	fields []string
}

// backupOf returns a backup with the records.
func backupOf(tb testing.TB, records ...written) []byte {
	tb.Helper()
	var b bytes.Buffer
	w, err := newWriter(&b)
	text, e := json.Marshal(header{time.Unix(1, 0), "test", 3, codec.Version})
	if err = errors.Join(err, e, w.add(kindHeader, fieldsOf(text))); err != nil {
		tb.Fatal(err)
	}
	for _, r := range records {
		err = errors.Join(err, w.add(r.kind, fieldsOf(r.fields)))
	}
	if err = errors.Join(err, w.close()); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestAFailedRestoreNamesItsCause(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	c := storetest.Client(t, redisclient.Options{URL: server.URL(), Partitions: 3, Timeout: time.Second})
	load := func(records ...written) error {
		must(t, Begin(t.Context(), c))
		_, err := Load(t.Context(), c, bytes.NewReader(backupOf(t, records...)))
		return err
	}
	must(t, load(written{kindWeather, []string{"x", "0", "days"}}))
	server.Client().FlushAll(t.Context())
	for name, r := range map[string]written{
		"a kind that is not known":   {200, []string{"x"}},
		"a value that is not valid":  {kindJob, []string{"acc_1", "job_1", "0", "x", "", "", ""}},
		"a reply without a position": {kindDelivery, []string{"acc_1", "wh_1", "m", "1", "r", "b"}},
		"what Redis does not take":   {kindEntry, []string{"news", "0-0", "n", "news"}},
		"a hash without a value":     {kindHash, []string{"state", "field"}},
	} {
		if err := load(r); !errors.Is(err, ErrDamaged) || signal.KindOf(err) == signal.KindUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, Begin(t.Context(), c))
	server.Kill()
	_, err := Load(t.Context(), c, bytes.NewReader(backupOf(t, written{kindWeather, []string{"x", "0", "y"}})))
	storetest.WantKind(t, "without Redis", err, signal.KindUnavailable)
}

// fullDisk takes no more than some bytes.
type fullDisk struct{ left int }

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.left -= len(b); d.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestABackupThatCannotBeWrittenNamesItsCause(t *testing.T) {
	t.Parallel()
	c := storetest.Client(t, redisclient.Options{URL: redistest.New(t).URL(), Partitions: 3})
	random := make([]byte, 1<<20) // does not become shorter
	for i, x := 0, uint32(1); i < len(random); i++ {
		x = x*1664525 + 1013904223
		random[i] = byte(x >> 24)
	}
	must(t, c.RDB.Set(t.Context(), c.WeatherKey("x"), random, 0).Err())
	_, err := Save(t.Context(), c, &fullDisk{100}, "test", nil)
	if !errors.Is(err, errFull) || signal.KindOf(err) == signal.KindUnavailable {
		t.Errorf("a full disk: %v", err)
	}
}

// TestARestoreWritesOurKeysOnly, whatever the file has: others may share the Redis.
func TestARestoreWritesOurKeysOnly(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	c := storetest.Client(t, redisclient.Options{URL: server.URL(), Partitions: 3})
	foreign := []string{"theirs", "{market}:feeder", "feeder", "{market}:state", "outcomes:9h", "outcomebars:", ""}
	records := []written{{kindWeather, []string{"", "0", "x"}}, {kindBars, []string{"1h", "", "x", "1"}}}
	for _, name := range foreign {
		records = append(records, written{kindHash, []string{name, "f", "x"}},
			written{kindEntry, []string{name, "1-1", "f", "x"}},
			written{kindStreamEnd, []string{name, "1-1", "1", "0-0"}},
			written{kindBars, []string{name, "BTC", "x", "1"}})
	}
	for _, r := range records {
		file := backupOf(t, r)
		if _, err := Check(bytes.NewReader(file), nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("kind %d of %q is valid: %v", r.kind, r.fields, err)
		}
		must(t, Begin(t.Context(), c))
		if _, err := Load(t.Context(), c, bytes.NewReader(file)); !errors.Is(err, ErrDamaged) {
			t.Errorf("kind %d of %q is loaded: %v", r.kind, r.fields, err)
		}
	}
	if keys := server.Client().Keys(t.Context(), "*").Val(); len(keys) != 1 || keys[0] != c.InstallationKey() {
		t.Errorf("there are the keys %q", keys)
	}
}

// FuzzRecord: whatever a record has, what the loader writes are keys that a backup keeps.
func FuzzRecord(f *testing.F) {
	for k, row := range records {
		for _, partition := range []string{"1", "acc_1", "1h", "state", "news"} {
			f.Add(byte(k), partition+strings.Repeat("\x001-1", row.fields-1), uint8(3))
		}
	}
	f.Fuzz(func(t *testing.T, k byte, text string, partitions uint8) {
		c, err := redisclient.NewClient(redisclient.Options{URL: "redis://127.0.0.1:1", Partitions: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l := newTarget(c, Summary{Partitions: 1 + int(partitions)%200})
		var fields [][]byte
		for field := range strings.SplitSeq(text, "\x00") {
			fields = append(fields, []byte(field))
		}
		if err := l.write(t.Context(), kind(k), fields); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("the cause is %v", err)
		}
		for _, cmd := range l.pipe.Cmds() {
			if key, _ := cmd.Args()[1].(string); key == "" {
				t.Errorf("%v has no key", cmd.Args())
			} else if kept, _, _ := Kept(key); !kept {
				t.Errorf("kind %d of %q writes the key %q", k, fields, key)
			}
		}
	})
}

func TestARedisWithOneKeyIsNotEmpty(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	c := storetest.Client(t, redisclient.Options{URL: server.URL(), Partitions: 3})
	rdb := server.Client()
	must(t, rdb.Set(t.Context(), "theirs", "x", 0).Err())
	for _, key := range []string{c.PositionKey(2), c.AccountKey("acc_1"), c.EpochKey(0), c.MarketTicksKey(), c.WeatherKey("x"),
		c.InstallationKey()} {
		must(t, rdb.HSet(t.Context(), key, "partitions", "3").Err())
		err := Begin(t.Context(), c)
		storetest.WantError(t, err, signal.KindConflict, "not_empty")
		if err != nil && !strings.Contains(err.Error(), key) {
			t.Errorf("with %s: %v", key, err)
		}
		must(t, rdb.Del(t.Context(), key).Err())
	}
	must(t, Begin(t.Context(), c))
	// An interrupted restore is removed, and what is of others stays.
	must(t, rdb.Set(t.Context(), c.PositionKey(2), "1-1", 0).Err())
	must(t, Begin(t.Context(), c))
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) != 2 || rdb.Get(t.Context(), "theirs").Val() != "x" {
		t.Errorf("there are the keys %q", keys)
	}
}

// TestTheEndHasTheSumOfAllRecords, and their number.
func TestTheEndHasTheSumOfAllRecords(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *writer){
		"sum":     func(w *writer) { w.sum.Write([]byte{0}) },
		"number":  func(w *writer) { w.records++ },
		"neither": func(*writer) {},
	} {
		var b bytes.Buffer
		w, err := newWriter(&b)
		must(t, err)
		must(t, w.add(kindWeather, fieldsOf("a", 0, "a")))
		change(w)
		must(t, w.close())
		if _, err := readAll(b.Bytes()); errors.Is(err, ErrDamaged) != (name != "neither") {
			t.Errorf("with another %s: %v", name, err)
		}
	}
}

// TestTheMemoryOfAReaderIsBounded by what it accepts as the window of the compression.
func TestTheMemoryOfAReaderIsBounded(t *testing.T) {
	t.Parallel()
	for _, window := range []int{maxWindow / 2, maxWindow, 2 * maxWindow} {
		b := bytes.NewBufferString("agentsignal backup 1\n")
		w, err := zstd.NewWriter(b, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		must(t, err)
		_, err = w.Write([]byte{1, byte(kindHeader)})
		must(t, errors.Join(err, w.Flush(), w.Close())) // flushed: the frame has a window, not a size
		_, err = readAll(b.Bytes())
		if large := errors.Is(err, zstd.ErrWindowSizeExceeded); large != (window > maxWindow) || !errors.Is(err, ErrDamaged) {
			t.Errorf("a window of %d bytes: %v", window, err)
		}
	}
}

// expiring answers that a key does not exist when it is asked when it expires: it has expired since it was read.
type expiring string

func (expiring) DialHook(next redis.DialHook) redis.DialHook { return next }

func (expiring) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (e expiring) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if c, ok := cmd.(*redis.DurationCmd); ok && c.Args()[1] == string(e) {
				c.SetVal(noKey)
			}
		}
		return err
	}
}

// TestWhatExpiresMeanwhileIsNotKept: it would be restored for ever.
func TestWhatExpiresMeanwhileIsNotKept(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	c := storetest.Client(t, redisclient.Options{URL: server.URL(), Partitions: 3})
	for _, name := range []string{"ends", "stays"} {
		must(t, c.RDB.Set(t.Context(), c.WeatherKey(name), "days", time.Hour).Err())
	}
	c.RDB.AddHook(expiring(c.WeatherKey("ends")))
	var file bytes.Buffer
	_, err := Save(t.Context(), c, &file, "test", nil)
	must(t, err)
	server.Client().FlushAll(t.Context())
	must(t, Begin(t.Context(), c))
	_, err = Load(t.Context(), c, &file)
	must(t, err)
	rdb := server.Client()
	if rdb.Exists(t.Context(), c.WeatherKey("ends")).Val() != 0 || rdb.TTL(t.Context(), c.WeatherKey("stays")).Val() <= 0 {
		t.Errorf("there are %q", rdb.Keys(t.Context(), "*").Val())
	}
}
