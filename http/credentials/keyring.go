package credentials

import "strings"

// keyBytes is the length of a signing key: as long as the hash of HS256.
const keyBytes = 32

// Key is a named key of access tokens.
type Key struct {
	Name  string
	Value [keyBytes]byte
}

// KeyRing holds the keys of access tokens: the first signs, all verify. The zero
// value has no keys. It does not print its keys.
type KeyRing struct {
	keys []Key
}

// NewKeyRing returns a ring of keys with different names.
func NewKeyRing(keys ...Key) KeyRing { return KeyRing{keys} }

// Empty reports whether the ring holds no key.
func (r KeyRing) Empty() bool { return len(r.keys) == 0 }

// String names the keys without showing them.
func (r KeyRing) String() string {
	names := make([]string, len(r.keys))
	for i, k := range r.keys {
		names[i] = k.Name + ":***"
	}
	return strings.Join(names, ",")
}

// GoString keeps the keys out of %#v.
func (r KeyRing) GoString() string { return r.String() }

// find returns the key with the name.
func (r KeyRing) find(name string) ([]byte, bool) {
	for i := range r.keys {
		if r.keys[i].Name == name {
			return r.keys[i].Value[:], true
		}
	}
	return nil, false
}
