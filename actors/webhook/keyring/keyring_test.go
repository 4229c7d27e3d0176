package keyring

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

func keyNamed(name string, fill byte) credential.NamedKey {
	k := credential.NamedKey{Name: name}
	for i := range k.Value {
		k.Value[i] = fill
	}
	return k
}

func newKeyring(tb testing.TB, keys ...credential.NamedKey) *Ring {
	tb.Helper()
	r, err := New(keys)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestKeyringOpensWhatItSealed(t *testing.T) {
	t.Parallel()
	r := newKeyring(t, keyNamed("2026", 1))
	for _, plain := range []string{"", "x", "whsec_c2lnbmFs", strings.Repeat("é", 256)} {
		sealed := r.Seal([]byte(plain), "whk_1")
		if len(plain) > 8 && bytes.Contains(sealed, []byte(plain)) {
			t.Errorf("%q can be read in what was sealed", plain)
		}
		got, err := r.Open(sealed, "whk_1")
		if err != nil || string(got) != plain {
			t.Errorf("opened %q, %v; want %q", got, err, plain)
		}
	}
	if bytes.Equal(r.Seal([]byte("x"), "whk_1"), r.Seal([]byte("x"), "whk_1")) {
		t.Error("the same secret is sealed to the same bytes twice")
	}
}

func TestKeyringOpensNothingElse(t *testing.T) {
	t.Parallel()
	r := newKeyring(t, keyNamed("2026", 1))
	sealed := r.Seal([]byte("secret"), "whk_1")
	changed := func(i int) []byte {
		b := bytes.Clone(sealed)
		b[i] ^= 1
		return b
	}
	tests := []struct {
		name    string
		ring    *Ring
		sealed  []byte
		purpose string
	}{
		{"for another purpose", r, sealed, "whk_2"},
		{"for no purpose", r, sealed, ""},
		{"with another key of that name", newKeyring(t, keyNamed("2026", 2)), sealed, "whk_1"},
		{"without its key", newKeyring(t, keyNamed("2027", 1)), sealed, "whk_1"},
		{"with a changed name", r, changed(1), "whk_1"},
		{"with a changed nonce", r, changed(5), "whk_1"},
		{"with a changed end", r, changed(len(sealed) - 1), "whk_1"},
		{"with bytes behind", r, append(bytes.Clone(sealed), 0), "whk_1"},
	}
	for _, test := range tests {
		if got, err := test.ring.Open(test.sealed, test.purpose); err == nil {
			t.Errorf("opened %s: %q", test.name, got)
		}
	}
	for n := range sealed {
		if got, err := r.Open(sealed[:n], "whk_1"); err == nil {
			t.Errorf("opened the first %d bytes: %q", n, got)
		}
	}
}

func TestKeyringRotation(t *testing.T) {
	t.Parallel()
	before := newKeyring(t, keyNamed("old", 1))
	during := newKeyring(t, keyNamed("new", 2), keyNamed("old", 1))
	after := newKeyring(t, keyNamed("new", 2))

	old := before.Seal([]byte("secret"), "whk_1")
	if got, err := during.Open(old, "whk_1"); err != nil || string(got) != "secret" {
		t.Errorf("with a new key in front, opened %q, %v", got, err)
	}
	if !before.Current(old) || during.Current(old) || during.Current(nil) {
		t.Error("Current does not report whether the first key has sealed a secret")
	}
	resealed := during.Seal([]byte("secret"), "whk_1")
	if !during.Current(resealed) || !after.Current(resealed) {
		t.Error("the ring does not seal with its first key")
	}
	if got, err := after.Open(resealed, "whk_1"); err != nil || string(got) != "secret" {
		t.Errorf("without the old key, opened %q, %v", got, err)
	}
	if _, err := after.Open(old, "whk_1"); err == nil || !strings.Contains(err.Error(), `"old"`) {
		t.Errorf("without the old key, opened what it has sealed: %v", err)
	}
}

func TestKeyringRefusesBadKeys(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		keys []credential.NamedKey
	}{
		{"none", nil},
		{"one without a name", []credential.NamedKey{keyNamed("", 1)}},
		{"one whose name is too long", []credential.NamedKey{keyNamed(strings.Repeat("n", 256), 1)}},
		{"two of one name", []credential.NamedKey{keyNamed("a", 1), keyNamed("a", 2)}},
	}
	for _, test := range tests {
		if _, err := New(test.keys); err == nil {
			t.Errorf("made a ring of keys: %s", test.name)
		}
	}
}

func FuzzKeyringOpen(f *testing.F) {
	key := credential.NamedKey{Name: "2026"} // of this process alone: another one may have made the bytes
	rand.Read(key.Value[:])
	r := newKeyring(f, key)
	genuine := r.Seal([]byte("secret"), "whk_1")
	f.Add(genuine)
	f.Add(genuine[:7])
	f.Add([]byte{})
	f.Add([]byte{255, 'a'})
	f.Fuzz(func(t *testing.T, sealed []byte) {
		got, err := r.Open(sealed, "whk_1")
		if err == nil && !bytes.Equal(sealed, genuine) {
			t.Errorf("opened forged bytes as %q", got)
		}
		r.Current(sealed)
	})
}

// Digests depend on the key, and stay valid while the key is an older one of the ring.
func TestDigestsNeedTheKey(t *testing.T) {
	t.Parallel()
	old := newKeyring(t, keyNamed("old", 1))
	rotated := newKeyring(t, keyNamed("new", 2), keyNamed("old", 1))
	data := []byte("a body with a secret")
	before, after := old.Digests(data, "a"), rotated.Digests(data, "a")
	if len(before) != 1 || len(after) != 2 || after[1] != before[0] || after[0] == before[0] {
		t.Errorf("before the rotation %x, after it %x", before, after)
	}
	bare := sha256.Sum256(data)
	seen := map[[32]byte]string{bare: "no key"}
	for name, digest := range map[string][32]byte{
		"old": after[1], "new": after[0], "other purpose": old.Digests(data, "b")[0],
		"other data": old.Digests(data[1:], "a")[0], "longer purpose": old.Digests(data[1:], "aa")[0],
	} {
		if with, twice := seen[digest]; twice {
			t.Errorf("%s has the digest of %s", name, with)
		}
		seen[digest] = name
	}
}
