package redisclient

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestInvalidAddresses(t *testing.T) {
	t.Parallel()
	noPEM := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(noPEM, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := redistest.NewTLSFiles(t)
	for _, address := range []string{
		"redis://localhost", "redis://:password@localhost:6379/3", "rediss://user:pass%40@localhost:6379",
		"unix://user:pass@/run/redis.sock", "redis+cluster://a:1,b:2", "rediss+cluster://user:pass@a:1,b:2",
		"rediss+sentinel://u:p@a:1,b:2/main?sentinel_username=x&sentinel_password=y",
	} {
		caFile := ""
		if strings.HasPrefix(address, "rediss") {
			caFile = f.CA
		}
		if err := CheckURL(address, caFile); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, c := range []struct{ address, caFile, want string }{
		{"localhost:6379", "", "redis.url: use redis://"},
		{"http://localhost:6379", "", "redis.url: use redis://"},
		{"sekrit-word://localhost:6379", "", "redis.url: use redis://"},
		{"redis://user:sekrit%zz-word@localhost:6379", "", "redis.url is not valid"},
		{"redis://user:sekrit word@localhost:6379", "", "redis.url is not valid"},
		{"redis://user:12/sekrit-word@localhost:6379", "", "redis.url is not valid"},
		{"redis://user:sekrit/word@localhost:6379", "", "redis.url is not valid"},
		{"redis://localhost:6379/0?password=sekrit-word", "", "redis.url is not valid"},
		{"redis+cluster://user:sekrit/word@a:1", "", "host:port"},
		{"redis+cluster://user:sekrit%zz-word@a:1", "", "redis.url is not valid"},
		{"redis+cluster://user:password@sekrit-word", "", "host:port"},
		{"redis+cluster://a:1?password=sekrit-word", "", "host:port"},
		{"redis+cluster://a:1/?password=sekrit-word", "", "options"},
		{"redis+sentinel://a:1/main?sentinel_pasword=sekrit-word", "", "options"},
		{"redis+sentinel://a:1/main?sentinel_password=sekrit%zz", "", "redis.url is not valid"},
		{"redis+sentinel://user:sekrit-word@a:1", "", "name of the master"},
		{"redis://localhost", f.CA, "redis.ca_file is for TLS"},
		{"rediss://localhost", noPEM, "no certificate in PEM"},
		{"rediss://localhost", "/nonexistent", "redis.ca_file"},
	} {
		err := CheckURL(c.address, c.caFile)
		if err == nil {
			t.Errorf("%s is valid, want %q", c.address, c.want)
			continue
		}
		text := err.Error()
		if !strings.Contains(text, c.want) || strings.Contains(text, "sekrit") || strings.Contains(text, "-word") {
			t.Errorf("%s: got %q, want %q without the password", c.address, text, c.want)
		}
	}
}

// FuzzCheckURL: no error has a part of the address.
func FuzzCheckURL(f *testing.F) {
	f.Add("redis", "user:", "@localhost:6379/0")
	f.Add("rediss", ":12/", "@localhost:6379")
	f.Add("redis+cluster", "", "@a:1,b:2")
	f.Add("redis+sentinel", "u%zz:", "@a:1/main?sentinel_password=x")
	f.Add("unix", "", "@/run/redis.sock?db=1")
	f.Fuzz(func(t *testing.T, scheme, before, behind string) {
		const marker = "Xq7marker"
		err := CheckURL(fmt.Sprintf("%s://%s%s%s", scheme, before, marker, behind), "")
		if err != nil && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(marker)) {
			t.Errorf("the error quotes the address: %v", err)
		}
	})
}
