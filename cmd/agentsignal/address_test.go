package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
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
		if u, err := parseAddress(text); err != nil || u.String() != want {
			t.Errorf("%s is read as %v, %v, want %s", text, u, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                    "names no host",
		"http://":                             "names no host",
		"http://:8080":                        "names no host",
		"localhost:":                          "no port",
		"localhost:eighty":                    "no address",
		"localhost:99999":                     `"99999" is not a port`,
		"ftp://localhost":                     `"ftp" is none of http`,
		"redis://localhost":                   `"redis" is none of http`,
		"http://me:secret@localhost":          "no user name",
		"http://localhost:8080/?api_key=ask_": "no query",
		"http://localhost:8080#x":             "no query",
		"http://local host":                   "no address",
	} {
		if u, err := parseAddress(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q is read as %v, %v, want the fault %q", text, u, err, want)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"localhost:8080", "ws://h/ws/dashboard", "https://h/p/v1/", "http://u:p@h", "h:99999", "://", "http://[::1]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseAddress(text)
		if err != nil {
			return
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || strings.HasSuffix(u.Path, "/") {
			t.Errorf("%q is read as %#v", text, u)
		}
		if again, err := parseAddress(u.String()); err != nil || again.Host != u.Host || !strings.HasPrefix(u.Path, again.Path) {
			t.Errorf("%q is read as %s, and that as %v, %v", text, u, again, err)
		}
	})
}

// Faults of flags end a command with a sentence on what to do: no JSON, no
// address with a secret in it, and no second try.
func TestFaultsOfFlagsEndWithASentence(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c, _ := s.account(t)
	runner, _ := s.account(t, "agents:run")
	key, wrong, weak := written(t, c.token), written(t, unknownKey()), written(t, runner.token)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	strange := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>hello")) }))
	t.Cleanup(strange.Close)
	nothing := httptest.NewServer(nil)
	nothing.Close()
	plainHost, secureHost := strings.TrimPrefix(s.url, "http://"), strings.TrimPrefix(secure.URL, "https://")
	for _, row := range []struct{ want, args string }{
		{"nothing listens at", "tail --key-file " + key + " --url " + nothing.URL},
		{"refuses the key (401)", "tail --url " + s.url + " --key-file " + wrong},
		{`no channel "signals.new": did you mean signal.new? There are signal.new, `, "tail --channels signals.new --key-file " + key + " --url " + s.url},
		{`"ftp" is none of http, https, ws and wss`, "tail --key-file " + key + " --url ftp://localhost"},
		{"answers without TLS: give http://" + plainHost, "tail --key-file " + key + " --url https://" + plainHost},
		{"is a port for HTTPS: give https://" + secureHost, "tail --key-file " + key + " --url " + secureHost},
		{"is not trusted", "tail --key-file " + key + " --url " + secure.URL},
		{"no agentsignal answers", "tail --key-file " + key + " --url " + strange.URL},
		{"no such file", "tail --key-file " + filepath.Join(t.TempDir(), "none")},
		{"first line is empty", "tail --key-file " + written(t, "\n")},
		{"copy it again", "tail --key-file " + written(t, "ask_a b")},
		{"nothing listens at", "healthcheck --url " + nothing.URL},
		{"is a port for HTTPS: give https://" + secureHost, "healthcheck --url " + secureHost},
		{"answers without TLS", "healthcheck --url https://" + plainHost},
		{"no agentsignal answers", "healthcheck --url " + strange.URL},
		{"refuses the key (401)", "webhook listen --addr 127.0.0.1:0 --register --url " + s.url + " --key-file " + wrong},
		{"(403): the credential lacks the scope webhooks:manage", "webhook listen --addr 127.0.0.1:0 --register --url " + s.url + " --key-file " + weak},
		{"nothing listens at", "webhook listen --addr 127.0.0.1:0 --register --url " + nothing.URL + " --key-file " + key},
		{"--url: ", "webhook listen --addr 127.0.0.1:0 --register --url ftp://x --key-file " + key},
	} {
		_, err := operator{tb: t}.try("", strings.Fields(row.args)...)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.args, err, row.want)
		} else if strings.ContainsAny(err.Error(), "{}\n") {
			t.Errorf("%s prints what is not for people: %v", row.args, err)
		}
	}
}

// An asset that looks like a slip is refused; others may come.
func TestTailRefusesMisspeltAssets(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/assets" && r.Header.Get("Authorization") == "Bearer ask_key" {
			w.Write([]byte(`{"assets":[{"asset":"BTC"},{"asset":"ETH"},{"asset":"natural_gas"}]}`))
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(service.Close)
	address, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	for asset, want := range map[string]string{"btcc": "did you mean BTC?", "natural_gass": "did you mean natural_gas?", "btc": "",
		"natural-gas": "", "btcusdt": "", "xbt": "", "Eth/USD": "", "standing desk": ""} {
		out := &journal{}
		tail := &tailer{address: address, key: "ask_key", assets: []string{asset}, err: out}
		err := tail.checkAssets(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", asset, err, want)
		}
		if warned := out.line("no prices of") != ""; warned != (asset == "standing desk") {
			t.Errorf("%s: warned is %v", asset, warned)
		}
	}
}

// A secret given by a flag is seen by others: the command warns of that without repeating it,
// and each secret has another way.
func TestSecretsNeedNoFlag(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	for args, warned := range map[string]string{
		"tail --url localhost:1 --key ask_marked":                                     "the value of --key: use --key-file or AGENTSIGNAL_API_KEY",
		"webhook listen --register --url localhost:1 --key ask_marked":                "the value of --key: use --key-file or AGENTSIGNAL_API_KEY",
		"webhook verify --secret ask_marked --request " + none:                        "the value of --secret: use --secret-file or AGENTSIGNAL_WEBHOOK_SECRET",
		"account create --email x --password ask_marked --data-dir " + written(t, ""): "the value of --password: use --password-stdin",
		"tail --url localhost:1 --key-file " + written(t, "ask_marked"):               "",
	} {
		out, said, err := command(t.Context(), strings.NewReader(""), strings.Fields(args)...)
		if err == nil || !strings.Contains(said, warned) || (said == "") != (warned == "") || strings.Contains(out+said+err.Error(), "ask_marked") {
			t.Errorf("%s: %q %q %v", args, out, said, err)
		}
	}
	for stdin, args := range map[string]string{
		"secret\n":     "webhook verify --secret-file - --request " + none,
		"secret\r\n":   "webhook verify --secret-file " + written(t, "secret\nmore\n") + " --request " + none,
		"ask_key\n":    "tail --url localhost:1 --key-file -",
		"a password\n": "account create --email x --password-stdin --data-dir " + written(t, ""),
		"":             "account create --email x --password-file " + written(t, "a password\n") + " --data-dir " + written(t, ""),
	} {
		_, said, err := command(t.Context(), strings.NewReader(stdin), strings.Fields(args)...)
		if err == nil || said != "" || strings.Contains(err.Error(), "give the") {
			t.Errorf("%s: %q %v", args, said, err)
		}
	}
}
