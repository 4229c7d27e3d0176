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
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		table = append(table, m[1])
	}
	for _, k := range keyKinds {
		known = append(known, k.row)
	}
	slices.Sort(table)
	slices.Sort(known)
	if d := cmp.Diff(table, known); d != "" {
		t.Errorf("kinds of keys in doc.go (-) and those that backups know, each once (+):\n%s", d)
	}
	for _, k := range []redisclient.Keys{{}, redisclient.NewKeys(200)} {
		if kept, _, known := Kept(k.JobsEndedKey(7, "acc_1")); !kept || !known {
			t.Error("a known key is not kept")
		}
		if kept, why, known := Kept(k.OwnerKey(7)); kept || why == "" || !known {
			t.Error("a lease is kept")
		}
		if m := ofBars.FindStringSubmatch(k.BarsKey("A}:B", "1h")); m == nil || m[1] != "1h" || m[2] != "A}:B" {
			t.Errorf("the key of bars is %q", m)
		}
	}
	if _, _, known := Kept("{pNN}:new"); known {
		t.Error("an unknown key is known")
	}
}

// fileOf returns a file of records.
func fileOf(tb testing.TB, texts ...string) []byte {
	tb.Helper()
	var b bytes.Buffer
	w, err := newWriter(&b)
	if err != nil {
		tb.Fatal(err)
	}
	for _, text := range texts {
		err = errors.Join(err, w.add(kindWeather, fieldsOf(text, 0, text)))
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

func TestEveryKindOfRecordHasANumberOfItsOwn(t *testing.T) {
	t.Parallel()
	n := 0
	for _, s := range sections() {
		n += len(s.records)
	}
	if n != len(records) || records[kindHeader].load != nil || records[kindEnd].load != nil {
		t.Errorf("there are %d kinds with %d numbers", n, len(records))
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "a", "b", "c")
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
	file := fileOf(f, "a", "b", "c")
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
