package record

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// witnessOf makes a witness and its public key.
func witnessOf(tb testing.TB, name string) (note.Signer, string) {
	tb.Helper()
	private, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := note.NewSigner(private)
	if err != nil {
		tb.Fatal(err)
	}
	return s, public
}

// cosign adds a signature to a note without a look at those that it has, as a witness may.
func cosign(tb testing.TB, signed []byte, s note.Signer) []byte {
	tb.Helper()
	text, _, _ := strings.Cut(string(signed), "\n\n")
	own, err := note.Sign(&note.Note{Text: text + "\n"}, s)
	if err != nil {
		tb.Fatal(err)
	}
	_, line, _ := strings.Cut(string(own), "\n\n")
	return append(bytes.Clone(signed), line...)
}

func keysOf(tb testing.TB, name string) *Keys {
	tb.Helper()
	key, err := NewKey(name)
	if err != nil {
		tb.Fatal(err)
	}
	k, err := ParseKeys(key)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// signedBy returns a signed checkpoint of two empty logs.
func signedBy(tb testing.TB, k *Keys) []byte {
	tb.Helper()
	_, older, _ := history(tb)
	signed, _, err := k.Sign(&Tree{}, older.Heads)
	if err != nil {
		tb.Fatal(err)
	}
	return signed.Note
}

func TestWitnessesAreRead(t *testing.T) {
	t.Parallel()
	own, other := keysOf(t, "log.example"), keysOf(t, "log.example")
	first, firstKey := witnessOf(t, "first.example")
	second, secondKey := witnessOf(t, "second.example")
	stranger, _ := witnessOf(t, "stranger.example")
	trusted, err := ParseWitnesses([]string{firstKey, secondKey})
	if err != nil {
		t.Fatal(err)
	}
	signed := signedBy(t, own)
	got, err := trusted.Read(cosign(t, cosign(t, cosign(t, signed, stranger), second), first), own)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d witnesses, %v", len(got), err)
	}
	if want := cosign(t, signed, first); !bytes.Equal(got[firstKey].Note, want) {
		t.Errorf("stored is %q, want %q", got[firstKey].Note, want)
	}
	if got[secondKey].Size != 1 || got[secondKey].Key != secondKey {
		t.Errorf("%+v", got[secondKey])
	}
	text, _, _ := strings.Cut(string(signed), "\n\n")
	forged := cosign(t, signed, first)
	forged[len(forged)-20] ^= 1 // a letter of the signature for another
	// Another log that has the same key: its checkpoints say nothing of ours.
	key, err := NewKey("log.example")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := ParseKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	renamed := strings.Replace(text, "log.example", "other.example", 1) + "\n"
	foreign, err := note.Sign(&note.Note{Text: renamed}, signer)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := trusted.Read(cosign(t, foreign, first), shared); !errors.Is(err, ErrNotOwn) || got != nil {
		t.Errorf("a note of another origin: %v, want %v", err, ErrNotOwn)
	}
	changed := func(from, to string) []byte { return bytes.Replace(signed, []byte(from), []byte(to), 1) }
	for name, c := range map[string]struct {
		note []byte
		want error
	}{
		"without a witness":            {signed, ErrNoWitness},
		"of a stranger":                {cosign(t, signed, stranger), ErrNoWitness},
		"without our signature":        {cosign(t, []byte(text+"\n\n"), first), ErrNotOwn},
		"of another service":           {cosign(t, signedBy(t, other), first), ErrNotOwn},
		"with another size":            {cosign(t, changed("\n1\n", "\n11\n"), first), verify.ErrNote},
		"with a forged signature":      {forged, verify.ErrNote},
		"with a malformed signature":   {append(signed[:len(signed):len(signed)], "— first.example A\n"...), verify.ErrNote},
		"without a text":               {nil, verify.ErrNote},
		"that is longer than any note": {bytes.Repeat([]byte("x"), 1<<20), verify.ErrNote},
	} {
		if got, err := trusted.Read(c.note, own); !errors.Is(err, c.want) || got != nil {
			t.Errorf("a note %s: %v, want %v", name, err, c.want)
		}
	}
}

func TestBadKeysOfWitnesses(t *testing.T) {
	t.Parallel()
	_, key := witnessOf(t, "first.example")
	many := make([]string, MaxWitnesses+1)
	for i := range many {
		_, many[i] = witnessOf(t, "w")
	}
	for want, keys := range map[string][]string{
		"key 2: it is not a public key": {key, "first.example"},
		"which is no address":           {key + " witness.example"},
		"key 2 is given twice":          {key, key},
		"at most 16":                    many,
	} {
		if _, err := ParseWitnesses(keys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestMergedSignatures(t *testing.T) {
	t.Parallel()
	own := keysOf(t, "log.example")
	first, _ := witnessOf(t, "first.example")
	second, _ := witnessOf(t, "second.example")
	signed := signedBy(t, own)
	one, two := cosign(t, signed, first), cosign(t, signed, second)
	newer := cosign(t, bytes.Replace(signed, []byte("time 2"), []byte("time 3"), 1), second)
	if got := Merge(signed, one, newer, two, one); !bytes.Equal(got, cosign(t, one, second)) {
		t.Errorf("merged to %q", got)
	}
	if got := Merge(signed); !bytes.Equal(got, signed) {
		t.Errorf("without others: %q", got)
	}
}

func FuzzReadWitnessed(f *testing.F) {
	own := keysOf(f, "log.example")
	first, key := witnessOf(f, "first.example")
	trusted, err := ParseWitnesses([]string{key})
	if err != nil {
		f.Fatal(err)
	}
	signed := signedBy(f, own)
	f.Add(cosign(f, signed, first))
	f.Add(signed)
	f.Add([]byte("a\n\n— b AAAA\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := trusted.Read(data, own)
		if (err == nil) != (len(all) == 1) {
			t.Fatalf("%d witnesses, %v", len(all), err)
		}
		for _, c := range all {
			text, _, _ := bytes.Cut(c.Note, []byte("\n\n"))
			if !bytes.HasPrefix(data, text) || !bytes.HasPrefix(signed, text) {
				t.Errorf("%q was read as %q", data, c.Note)
			}
		}
	})
}
