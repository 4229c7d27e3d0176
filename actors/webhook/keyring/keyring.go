// Package keyring encrypts secrets at rest with named keys, so that a key can be replaced
// while secrets sealed by the old one are still in use.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// Ring encrypts the secrets of webhooks with AES-256-GCM. Its first key seals and all of
// them open, so that a new key can be put before an old one, and the old one removed once
// it is unused. It is safe for concurrent use.
type Ring struct {
	current string
	ciphers map[string]cipher.AEAD
	digests [][]byte // keys of Digests, in the order of the ring
}

// New returns a ring of one or more keys with different names.
func New(keys []credential.NamedKey) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("make keyring: no key is given")
	}
	r := &Ring{current: keys[0].Name, ciphers: make(map[string]cipher.AEAD, len(keys))}
	for _, k := range keys {
		if len(k.Name) == 0 || len(k.Name) > 255 {
			return nil, fmt.Errorf("make keyring: the name %q must have 1 to 255 bytes", k.Name)
		}
		if r.ciphers[k.Name] != nil {
			return nil, fmt.Errorf("make keyring: the key %q is given twice", k.Name)
		}
		block, err := aes.NewCipher(k.Value[:])
		if err != nil {
			return nil, fmt.Errorf("make keyring: %w", err)
		}
		if r.ciphers[k.Name], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("make keyring: %w", err)
		}
		derived := hmac.New(sha256.New, k.Value[:]) // one key for one use
		derived.Write([]byte("digests"))
		r.digests = append(r.digests, derived.Sum(nil))
	}
	return r, nil
}

// Seal encrypts plain for a purpose, such as the identifier of a webhook. Open must be
// called with the same purpose.
func (r *Ring) Seal(plain []byte, purpose string) []byte {
	aead := r.ciphers[r.current]
	b := make([]byte, 0, 1+len(r.current)+len(plain)+aead.Overhead())
	b = append(b, byte(len(r.current)))
	b = append(b, r.current...)
	return aead.Seal(b, nil, plain, []byte(purpose))
}

// Open decrypts the result of Seal. It fails if the key is not in the ring, or if the bytes
// or the purpose differ.
func (r *Ring) Open(sealed []byte, purpose string) ([]byte, error) {
	name, rest, err := cutKeyName(sealed)
	if err != nil {
		return nil, err
	}
	aead := r.ciphers[name]
	if aead == nil {
		return nil, fmt.Errorf("open sealed secret: the encryption key %q is missing: "+
			"put it into security.encryption_keys again", name)
	}
	plain, err := aead.Open(nil, nil, rest, []byte(purpose))
	if err != nil {
		return nil, fmt.Errorf("open sealed secret with the encryption key %q: %w", name, err)
	}
	return plain, nil
}

// Digests returns a digest of data for a purpose by each key of the ring. Without the key,
// data cannot be guessed from it.
func (r *Ring) Digests(data []byte, purpose string) [][32]byte {
	list := make([][32]byte, len(r.digests))
	for i, key := range r.digests {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(strconv.Itoa(len(purpose)) + " " + purpose))
		mac.Write(data)
		mac.Sum(list[i][:0])
	}
	return list
}

// Len returns the number of keys.
func (r *Ring) Len() int { return len(r.ciphers) }

// Current reports whether sealed was sealed by the first key of the ring.
func (r *Ring) Current(sealed []byte) bool {
	name, _, err := cutKeyName(sealed)
	return err == nil && name == r.current
}

// cutKeyName splits sealed bytes into the name of the key and the rest.
func cutKeyName(sealed []byte) (name string, rest []byte, err error) {
	if len(sealed) == 0 || len(sealed) < 1+int(sealed[0]) {
		return "", nil, errors.New("open sealed secret: the bytes are cut off")
	}
	n := 1 + int(sealed[0])
	return string(sealed[1:n]), sealed[n:], nil
}
