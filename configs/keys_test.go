package configs

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestParseKeys(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	for list, names := range map[string]int{"": 0, "  ": 0, "a:" + key: 1, " a:" + key + " , b.c_d-E9:" + key + "\n": 2, strings.Repeat("n", 64) + ":" + key: 1} {
		keys, err := ParseKeys(list)
		if err != nil || len(keys) != names {
			t.Errorf("%q: %d keys, %v", list, len(keys), err)
		}
	}
	for name, list := range map[string]string{
		"no name": key, "empty name": ":" + key, "long name": strings.Repeat("n", 65) + ":" + key, "name with a space": "a b:" + key,
		"same name": "a:" + key + ",a:" + key, "empty item": "a:" + key + ",", "31 bytes": "a:" + base64.StdEncoding.EncodeToString(make([]byte, 31)),
		"33 bytes": "a:" + base64.StdEncoding.EncodeToString(make([]byte, 33)), "no padding": "a:" + strings.TrimRight(key, "="),
		"hex": "a:" + strings.Repeat("6b", 32), "unused bits": "a:" + key[:42] + "t=", "line end within": "a:" + key[:10] + "\n" + key[10:], "no key": "a:",
	} {
		_, err := ParseKeys(list)
		if err == nil {
			t.Errorf("%s is accepted", name)
		} else if strings.Contains(err.Error(), key[:20]) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
}

func TestKeysDoNotShowThemselves(t *testing.T) {
	t.Parallel()
	k := Key{Name: "new", Value: [keyBytes]byte{1, 2, 3}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, []Key{k}); !strings.Contains(got, "new:***") || len(got) > 30 {
			t.Errorf("%s prints %s", format, got)
		}
	}
}

func TestMadeKeyIsKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	var wg sync.WaitGroup
	made := make([][]Key, 8)
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
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
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
