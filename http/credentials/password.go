package credentials

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/alexedwards/argon2id"
)

// commonText lists the most common passwords, one a line.
//
//go:embed common.txt
var commonText string

var commonPasswords = func() map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(commonText) {
		if line = strings.TrimSpace(line); line != "" {
			set[foldPassword(line)] = true
		}
	}
	return set
}()

// lookAlikes undoes the usual replacements of letters.
var lookAlikes = strings.NewReplacer("@", "a", "4", "a", "3", "e", "1", "i", "!", "i", "0", "o", "$", "s", "5",
	"s", "7", "t")

// foldPassword makes variants of a password equal.
func foldPassword(p string) string { return lookAlikes.Replace(strings.ToLower(p)) }

// isCommon reports whether p is easy to guess: a variant of a common password or one
// repeated character.
func isCommon(p string) bool {
	folded := foldPassword(p)
	if commonPasswords[folded] {
		return true
	}
	for _, r := range folded {
		return strings.Trim(folded, string(r)) == ""
	}
	return false
}

// hasher makes and compares password hashes. Each takes 19 MiB and a core for a while, so
// only a few run at once, which leaves cores to other work, a few more wait, and the rest is
// refused.
type hasher struct {
	params argon2id.Params
	slots  chan struct{} // of hashes that run
	places chan struct{} // of hashes that run or wait
	// dummy is the hash of accounts that do not exist. No password has it.
	dummy string
	check func(password, hash string) (bool, *argon2id.Params, error) // argon2id.CheckHash
}

func newHasher(p argon2id.Params, atOnce, waiting int) *hasher {
	salt, key := make([]byte, p.SaltLength), make([]byte, p.KeyLength)
	rand.Read(salt)
	rand.Read(key)
	encode := base64.RawStdEncoding.EncodeToString
	const argon2Version = 0x13
	return &hasher{
		params: p,
		check:  argon2id.CheckHash,
		slots:  make(chan struct{}, atOnce),
		places: make(chan struct{}, atOnce+waiting),
		dummy: fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2Version, p.Memory, p.Iterations, p.Parallelism,
			encode(salt), encode(key)),
	}
}

// acquire waits for a slot. KindUnavailable: too many wait already, or ctx has ended.
func (h *hasher) acquire(ctx context.Context) error {
	select {
	case h.places <- struct{}{}:
	default:
		return errBusy
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-h.places
		return fmt.Errorf("%w: %w", errBusy, ctx.Err())
	}
}

func (h *hasher) release() {
	<-h.slots
	<-h.places
}

func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	if err := h.acquire(ctx); err != nil {
		return "", err
	}
	defer h.release()
	text, err := argon2id.CreateHash(password, &h.params)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return text, nil
}

// compare reports whether password has the hash, and whether the hash was made with other
// than the present parameters. An empty hash takes as long and is never right.
func (h *hasher) compare(ctx context.Context, password, hash string) (right, outdated bool, err error) {
	if err := h.acquire(ctx); err != nil {
		return false, false, err
	}
	defer h.release()
	known := hash != ""
	if !known {
		hash = h.dummy
	}
	right, params, err := h.check(password, hash)
	if err != nil {
		return false, false, fmt.Errorf("compare password: %w", err)
	}
	return right && known, *params != h.params, nil
}
