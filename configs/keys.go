package configs

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// keyBytes is the length of a key.
const keyBytes = len(credential.NamedKey{}.Value)

// madeKeyName is the name of a key made by LoadOrMakeKeys.
const madeKeyName = "made"

// ParseKeys parses a comma-separated list of name:key, where key is the base64 of 32
// random bytes. An empty list is valid. Errors do not contain keys.
func ParseKeys(list string) ([]credential.NamedKey, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	var keys []credential.NamedKey
	for i, item := range strings.Split(list, ",") {
		name, encoded, ok := strings.Cut(strings.TrimSpace(item), ":")
		if !ok {
			return nil, fmt.Errorf("key %d is not of the form name:base64: %s", i+1, makeKey)
		}
		if !isKeyName(name) {
			return nil, fmt.Errorf("key %d: its name must be 1 to 64 of the characters A-Z a-z 0-9 . _ -", i+1)
		}
		if slices.ContainsFunc(keys, func(k credential.NamedKey) bool { return k.Name == name }) {
			return nil, fmt.Errorf("key %d: the name %q is there twice", i+1, name)
		}
		value, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || len(value) != keyBytes || strings.ContainsAny(encoded, "\r\n") {
			return nil, fmt.Errorf("key %q is not the base64 of %d bytes", name, keyBytes)
		}
		if isTrivial(value) {
			return nil, fmt.Errorf("key %q can be guessed: make one with openssl rand -base64 %d", name, keyBytes)
		}
		keys = append(keys, credential.NamedKey{Name: name, Value: [keyBytes]byte(value)})
	}
	return keys, nil
}

// minDifferent is the minimum number of different bytes in a key. Of 32 random bytes some
// 30 differ; fewer than 16 do in less than one of 10^15 keys.
const minDifferent = 16

// isTrivial reports whether a key is not random: all zeros, a pattern, or bytes that
// count up or down, as in examples.
func isTrivial(key []byte) bool {
	different, steps := map[byte]bool{}, map[byte]bool{}
	for i, b := range key {
		different[b] = true
		if i > 0 {
			steps[b-key[i-1]] = true
		}
	}
	return len(different) < minDifferent || len(steps) == 1
}

func isKeyName(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// LoadOrMakeKeys returns the keys in a file of the directory dir, which must be readable
// by its owner only. If the file does not exist, one key is made. Processes that start at
// the same time on one directory get the same key.
func LoadOrMakeKeys(dir, file string) ([]credential.NamedKey, error) {
	text, err := LoadOrMakeSecret(dir, file, func() (string, error) {
		var value [keyBytes]byte
		rand.Read(value[:]) // never fails
		return madeKeyName + ":" + base64.StdEncoding.EncodeToString(value[:]), nil
	})
	if err != nil {
		return nil, err
	}
	keys, err := ParseKeys(text)
	if err == nil && len(keys) == 0 {
		err = errors.New("the file is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", filepath.Join(dir, file), err)
	}
	return keys, nil
}

// LoadOrMakeSecret returns the text of a file of the directory dir, which must be readable by its
// owner only. If the file does not exist, it is written with what newSecret returns. Processes
// that start at the same time on one directory get the same text.
func LoadOrMakeSecret(dir, file string, newSecret func() (string, error)) (string, error) {
	path := filepath.Join(dir, file)
	text, err := loadSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	made, err := newSecret()
	if err == nil {
		err = writeSecret(dir, path, made)
	}
	if err != nil {
		return "", fmt.Errorf("make key: %w", err)
	}
	return loadSecret(path)
}

func loadSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("read key: others may read %s: make a new key, or set its mode to 0600", path)
	}
	text, err := ReadSecretFile(path)
	return string(text), err
}

// writeSecret writes a text to a temporary file and links it to path, so that path is
// never incomplete and never replaced.
func writeSecret(dir, path, text string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.WriteString(text + "\n"); err != nil {
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
