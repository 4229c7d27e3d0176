package backup

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// TestEveryKindOfKeyIsKnown: a new row of the table of keys needs a decision here.
func TestEveryKindOfKeyIsKnown(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var table, known []string
	row := regexp.MustCompile(`(?m)^//\t(\S+)\s+(?:stream|hash|string|zset|set)\s`)
	variable := regexp.MustCompile(`\b[A-Z]{2,}\b`)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		table = append(table, variable.ReplaceAllString(m[1], "*"))
	}
	for _, k := range keyKinds {
		known = append(known, variable.ReplaceAllString(k.name, "*"))
	}
	slices.Sort(table)
	slices.Sort(known)
	known = slices.Compact(known)
	if d := cmp.Diff(table, known); d != "" {
		t.Errorf("kinds of keys in doc.go (-) and those that backups know (+):\n%s", d)
	}
	for _, k := range []redisclient.Keys{{}, redisclient.Installation{Partitions: 200, Even: true}.Keys()} {
		if kept, _, known := Kept(k.JobsEndedKey(7, "acc_1")); !kept || !known {
			t.Error("a known key is not kept")
		}
		if kept, why, known := Kept(k.OwnerKey(7)); kept || why == "" || !known {
			t.Error("a lease is kept")
		}
		if key := k.BarsKey("A}:B", "1h"); k.Named(redisclient.Former(key)) != key {
			t.Errorf("%s is renamed to %s", key, k.Named(redisclient.Former(key)))
		}
	}
	if _, _, known := Kept("{pNN}:new"); known {
		t.Error("an unknown key is known")
	}
}

// fileOf returns a file of records.
func fileOf(tb testing.TB, sections ...[]string) []byte {
	tb.Helper()
	var b bytes.Buffer
	w, err := newWriter(&b)
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range sections {
		for _, text := range s {
			err = errors.Join(err, w.add(kindString, texts("{weather}:"+text, "0", text)...))
		}
		err = errors.Join(err, w.end())
	}
	if err = errors.Join(err, w.close()); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// readAll reads a file to its end.
func readAll(file []byte) (records int, err error) {
	r, err := newReader(bytes.NewReader(file))
	if err != nil {
		return 0, err
	}
	defer r.close()
	for ; ; records++ {
		if _, _, err := r.next(); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return records, err
		}
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	t.Parallel()
	file := fileOf(t, []string{"a", "b"}, nil, []string{"c"})
	if n, err := readAll(file); n != 3 || err != nil {
		t.Fatalf("read %d records, %v", n, err)
	}
	for i := range file {
		if n, err := readAll(file[:i]); err == nil {
			t.Fatalf("cut short to %d bytes it has %d records", i, n)
		}
		changed := bytes.Clone(file)
		changed[i] ^= 0x10
		if n, err := readAll(changed); err == nil && n != 3 {
			t.Fatalf("with another byte %d it has %d records", i, n)
		}
	}
	if _, err := readAll(append(bytes.Clone(file), file...)); !errors.Is(err, ErrDamaged) {
		t.Errorf("two files in one: %v", err)
	}
	if _, err := readAll([]byte("agentsignal backup 9\n")); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer version: %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	file := fileOf(f, []string{"a"}, []string{"b", "c"})
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add([]byte("agentsignal backup 1\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, err := Check(bytes.NewReader(file), nil); err == nil {
			t.Error("a file without a header is valid")
		}
		n, err := readAll(file)
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
			t.Errorf("%d records, and %v", n, err)
		}
	})
}
