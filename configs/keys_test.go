package configs

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

func TestParseKeys(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString([]byte("p9x2Lm7QvR4sT8wZaB3cD5eF6gH1jK0n"))
	for list, names := range map[string]int{"": 0, "  ": 0, "a:" + key: 1, " a:" + key + " , b.c_d-E9:" + key + "\n": 2,
		strings.Repeat("n", 64) + ":" + key: 1} {
		keys, err := ParseKeys(list)
		if err != nil || len(keys) != names {
			t.Errorf("%q: %d keys, %v", list, len(keys), err)
		}
	}
	for name, list := range map[string]string{
		"no name": key, "empty name": ":" + key, "long name": strings.Repeat("n", 65) + ":" + key,
		"name with a space": "a b:" + key,
		"same name":         "a:" + key + ",a:" + key, "empty item": "a:" + key + ",", "31 bytes": "a:" +
			base64.StdEncoding.EncodeToString(make([]byte, 31)),
		"33 bytes": "a:" + base64.StdEncoding.EncodeToString(make([]byte, 33)), "no padding": "a:" +
			strings.TrimRight(key, "="),
		"hex": "a:" + strings.Repeat("6b", 32), "unused bits": "a:" + key[:42] + "5=",
		"line end within": "a:" + key[:10] +
			"\n" + key[10:], "no key": "a:",
	} {
		_, err := ParseKeys(list)
		if err == nil {
			t.Errorf("%s is accepted", name)
		} else if strings.Contains(err.Error(), key[:20]) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
}

func TestTrivialKeysAreRefused(t *testing.T) {
	t.Parallel()
	count := make([]byte, 32)
	for i := range count {
		count[i] = byte(250 + i) // wraps around
	}
	down := slices.Clone(count)
	slices.Reverse(down)
	for name, value := range map[string][]byte{"zeros": make([]byte, 32), "one byte": bytes.Repeat([]byte{0xa5}, 32),
		"counting up": count, "counting down": down,
		"a pattern": bytes.Repeat([]byte("abcdefgh"), 4), "a phrase": []byte("aaa bbb ccc ddd eee fff ggg hhh "),
		"15 different bytes": append(make([]byte, 18), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)} {
		text := base64.StdEncoding.EncodeToString(value)
		_, err := ParseKeys("ok:" + base64.StdEncoding.EncodeToString([]byte("p9x2Lm7QvR4sT8wZaB3cD5eF6gH1jK0n")) +
			",weak:" + text)
		if err == nil || !strings.Contains(err.Error(), `"weak"`) ||
			!strings.Contains(err.Error(), "openssl rand -base64 32") || strings.Contains(err.Error(), text[:20]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	sixteen := append(make([]byte, 17), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	if _, err := ParseKeys("a:" + base64.StdEncoding.EncodeToString(sixteen)); err != nil {
		t.Errorf("16 different bytes: %v", err)
	}
	for range 1000 {
		var value [keyBytes]byte
		rand.Read(value[:])
		if isTrivial(value[:]) {
			t.Errorf("random bytes are refused: %x", value)
		}
	}
}

// TestShownKeysAreRefused checks that no document or example shows an acceptable key.
func TestShownKeysAreRefused(t *testing.T) {
	t.Parallel()
	shown := 0
	form := regexp.MustCompile(`\b[0-9A-Za-z._-]{1,64}:[0-9A-Za-z+/]{43}=`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch filepath.Ext(path) {
		case ".md", ".yaml", ".yml", ".env", ".conf", ".service", ".html", ".txt":
		default:
			return err
		}
		text, err := os.ReadFile(path)
		for _, key := range form.FindAllString(string(text), -1) {
			shown++
			if _, err := ParseKeys(key); err == nil {
				t.Errorf("%s shows a key that is accepted: %s", path, key)
			}
		}
		return err
	})
	if err != nil || shown == 0 {
		t.Errorf("%d keys found, %v", shown, err)
	}
}

func TestFilesOfSecrets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("redis://:hidden@localhost:6379\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"AGENTSIGNAL_REDIS_URL_FILE=" + path, "AGENTSIGNAL_TLS_KEY_FILE=/does/not/exist",
		"OTHER_FILE=" + path}
	for mode, want := range map[fs.FileMode]struct{ refused, readable bool }{0o600: {}, 0o640: {}, 0o400: {},
		0o644: {readable: true}, 0o444: {readable: true},
		0o660: {refused: true}, 0o620: {refused: true}, 0o602: {refused: true},
		0o666: {refused: true, readable: true}} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		c, err := Load("", environ[:1])
		if want.refused {
			if err == nil || !strings.Contains(err.Error(), "AGENTSIGNAL_REDIS_URL_FILE") ||
				!strings.Contains(err.Error(), "chmod go-w") || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%v: %v", mode, err)
			}
		} else if err != nil || c.Redis.URL != "redis://:hidden@localhost:6379" {
			t.Errorf("%v: %v", mode, err)
		}
		if got := ReadableSecrets(environ); len(got) == 1 != want.readable {
			t.Errorf("%v: files that every user may read: %v", mode, got)
		}
		if got := ReadableSecrets(nil, path, ""); len(got) == 1 != want.readable {
			t.Errorf("%v: files that every user may read: %v", mode, got)
		}
	}
}

func TestMadeKeyIsKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	var wg sync.WaitGroup
	made := make([][]credential.NamedKey, 8)
	for i := range made {
		wg.Go(func() {
			var err error
			if made[i], err = LoadOrMakeKeys(dir, "test.key"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, r := range made {
		if len(r) != 1 || r[0] != made[0][0] {
			t.Errorf("keys differ: %v", r)
		}
	}
	again, err := LoadOrMakeKeys(dir, "test.key")
	if err != nil || again[0] != made[0][0] {
		t.Errorf("after a restart: %v, %v", again, err)
	}
	path := filepath.Join(dir, "test.key")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v are left, %v", files, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrMakeKeys(dir, "test.key"); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a key that others may read: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "made:short", "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrMakeKeys(dir, "test.key"); err == nil {
			t.Errorf("a file of %q is accepted", text)
		}
	}
	if _, err := LoadOrMakeKeys(filepath.Join(path, "sub"), "test.key"); err == nil {
		t.Error("a directory that cannot be made is accepted")
	}
}

func FuzzParseKeys(f *testing.F) {
	key := base64.StdEncoding.EncodeToString([]byte("p9x2Lm7QvR4sT8wZaB3cD5eF6gH1jK0n"))
	f.Add("a:" + key + ",b:" + key)
	f.Add("")
	f.Add(":,")
	f.Fuzz(func(t *testing.T, list string) {
		keys, err := ParseKeys(list)
		if err != nil {
			return
		}
		items := make([]string, len(keys))
		for i, k := range keys {
			items[i] = k.Name + ":" + base64.StdEncoding.EncodeToString(k.Value[:])
		}
		again, err := ParseKeys(strings.Join(items, ","))
		if err != nil || len(again) != len(keys) {
			t.Errorf("%q reads back as %v, %v", list, again, err)
		}
	})
}
