package credentials

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
		r, err := ParseKeys(list)
		if err != nil || len(r.keys) != names || r.Empty() != (names == 0) {
			t.Errorf("%q: %d keys, %v", list, len(r.keys), err)
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

func TestKeyRingDoesNotShowItsKeys(t *testing.T) {
	t.Parallel()
	r := testKeys(t)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(format, r); !strings.Contains(got, "new:***,old:***") || len(got) > 40 {
			t.Errorf("%s prints %s", format, got)
		}
	}
}

func TestMadeKeyIsKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	var wg sync.WaitGroup
	rings := make([]KeyRing, 8)
	for i := range rings {
		wg.Go(func() {
			var err error
			if rings[i], err = LoadOrMakeKeys(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, r := range rings {
		if len(r.keys) != 1 || r.keys[0] != rings[0].keys[0] {
			t.Errorf("rings differ: %v", r)
		}
	}
	again, err := LoadOrMakeKeys(dir)
	if err != nil || again.keys[0] != rings[0].keys[0] {
		t.Errorf("after a restart: %v, %v", again, err)
	}
	path := filepath.Join(dir, keyFile)
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
	if _, err := LoadOrMakeKeys(dir); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a key that others may read: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "made:short", "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrMakeKeys(dir); err == nil {
			t.Errorf("a file of %q is accepted", text)
		}
	}
	if _, err := LoadOrMakeKeys(filepath.Join(path, "sub")); err == nil {
		t.Error("a directory that cannot be made is accepted")
	}
}

func FuzzParseKeys(f *testing.F) {
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	f.Add("a:" + key + ",b:" + key)
	f.Add("")
	f.Add(":,")
	f.Fuzz(func(t *testing.T, list string) {
		r, err := ParseKeys(list)
		if err != nil {
			return
		}
		items := make([]string, len(r.keys))
		for i, k := range r.keys {
			items[i] = k.name + ":" + base64.StdEncoding.EncodeToString(k.secret[:])
		}
		again, err := ParseKeys(strings.Join(items, ","))
		if err != nil || len(again.keys) != len(r.keys) {
			t.Errorf("%q reads back as %v, %v", list, again, err)
		}
	})
}
