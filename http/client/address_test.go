package client

import (
	"strings"
	"testing"
)

func TestAddressesAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"localhost:8080":                     "http://localhost:8080",
		"example.com":                        "http://example.com",
		"http://localhost:8080":              "http://localhost:8080",
		"http://localhost:8080/":             "http://localhost:8080",
		"ws://localhost:8080/ws/dashboard":   "http://localhost:8080",
		"wss://example.com/v1/ws/dashboard/": "https://example.com",
		"HTTPS://example.com/v1":             "https://example.com",
		"https://example.com/signals/v1/":    "https://example.com/signals",
		"http://[::1]:8080/readyz":           "http://[::1]:8080",
		"http://localhost:8080/docs":         "http://localhost:8080",
	} {
		if u, err := ParseAddress(text); err != nil || u.String() != want {
			t.Errorf("%s is read as %v, %v, want %s", text, u, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                    "names no host",
		"http://":                             "names no host",
		"http://:8080":                        "names no host",
		"localhost:":                          "no port",
		"localhost:eighty":                    "not an address",
		"localhost:99999":                     `"99999" is not a port`,
		"ftp://localhost":                     `"ftp" is not http`,
		"redis://localhost":                   `"redis" is not http`,
		"http://me:secret@localhost":          "no user name",
		"http://localhost:8080/?api_key=ask_": "no query",
		"http://localhost:8080#x":             "no query",
		"http://local host":                   "not an address",
	} {
		if u, err := ParseAddress(text); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q is read as %v, %v, want the fault %q", text, u, err, want)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"localhost:8080", "ws://h/ws/dashboard", "https://h/p/v1/", "http://u:p@h", "h:99999",
		"://", "http://[::1]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseAddress(text)
		if err != nil {
			return
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" ||
			strings.HasSuffix(u.Path, "/") {
			t.Errorf("%q is read as %#v", text, u)
		}
		if again, err := ParseAddress(u.String()); err != nil || again.Host != u.Host ||
			!strings.HasPrefix(u.Path, again.Path) {
			t.Errorf("%q is read as %s, and that as %v, %v", text, u, again, err)
		}
	})
}
