package credentials

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keyBytes is the length of a signing key: as long as the hash of HS256.
const keyBytes = 32

// madeKeyName is the name of a key that LoadOrMakeKeys made.
const madeKeyName = "made"

// keyFile is the file of the made key in the data directory.
const keyFile = "jwt.key"

// KeyRing holds the keys of access tokens: the first signs, all verify. The zero
// value holds none. It does not print its keys.
type KeyRing struct {
	keys []namedKey
}

type namedKey struct {
	name   string
	secret [keyBytes]byte
}

// Empty says that the ring holds no key.
func (r KeyRing) Empty() bool { return len(r.keys) == 0 }

// String names the keys without showing them.
func (r KeyRing) String() string {
	names := make([]string, len(r.keys))
	for i, k := range r.keys {
		names[i] = k.name + ":***"
	}
	return strings.Join(names, ",")
}

// GoString keeps the keys out of %#v.
func (r KeyRing) GoString() string { return r.String() }

// find returns the key with the name.
func (r KeyRing) find(name string) ([]byte, bool) {
	for i := range r.keys {
		if r.keys[i].name == name {
			return r.keys[i].secret[:], true
		}
	}
	return nil, false
}

// ParseKeys reads a comma list of name:key, where name is 1 to 64 of the
// characters A-Z a-z 0-9 . _ - and key is the base64 of 32 bytes. An empty list
// is an empty ring. Errors do not show keys.
func ParseKeys(list string) (KeyRing, error) {
	var r KeyRing
	if strings.TrimSpace(list) == "" {
		return r, nil
	}
	for i, item := range strings.Split(list, ",") {
		name, encoded, ok := strings.Cut(strings.TrimSpace(item), ":")
		if !ok {
			return KeyRing{}, fmt.Errorf("key %d is not of the form name:base64", i+1)
		}
		if !isKeyName(name) {
			return KeyRing{}, fmt.Errorf("key %d: its name must be 1 to 64 of the characters A-Z a-z 0-9 . _ -", i+1)
		}
		if _, ok := r.find(name); ok {
			return KeyRing{}, fmt.Errorf("key %d: the name %q is there twice", i+1, name)
		}
		secret, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || len(secret) != keyBytes || strings.ContainsAny(encoded, "\r\n") {
			return KeyRing{}, fmt.Errorf("key %q is not the base64 of %d bytes", name, keyBytes)
		}
		r.keys = append(r.keys, namedKey{name: name, secret: [keyBytes]byte(secret)})
	}
	return r, nil
}

func isKeyName(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isBase62(s[i:i+1]) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// LoadOrMakeKeys returns the key kept in the directory dir, which only its owner
// may read. If there is none yet, one is made. Processes that start at once on the
// same directory get the same key.
func LoadOrMakeKeys(dir string) (KeyRing, error) {
	path := filepath.Join(dir, keyFile)
	r, err := loadKeys(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	if err := makeKeys(dir, path); err != nil {
		return KeyRing{}, fmt.Errorf("make JWT key: %w", err)
	}
	return loadKeys(path)
}

func loadKeys(path string) (KeyRing, error) {
	f, err := os.Open(path)
	if err != nil {
		return KeyRing{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return KeyRing{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return KeyRing{}, fmt.Errorf("read JWT key: others may read %s: make a new key, or set its mode to 0600", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return KeyRing{}, err
	}
	r, err := ParseKeys(string(text))
	if err == nil && r.Empty() {
		err = errors.New("the file is empty")
	}
	if err != nil {
		return KeyRing{}, fmt.Errorf("read JWT key %s: %w", path, err)
	}
	return r, nil
}

// makeKeys writes a new key under another name and links it to path, so that path
// is never there in part and never replaced.
func makeKeys(dir, path string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, keyFile+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var secret [keyBytes]byte
	rand.Read(secret[:]) // never fails: the process would end
	if _, err := f.WriteString(madeKeyName + ":" + base64.StdEncoding.EncodeToString(secret[:]) + "\n"); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
