package remote

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/http/client"
)

// found returns the address and the key that a command with the arguments uses, where the key is from, and the error.
func found(dir string, args ...string) (string, error) {
	f := Flags{DataDir: func() (string, error) { return dir, nil }}
	var c *client.Client
	cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) (err error) {
		c, err = f.Client(cmd)
		return err
	}}
	f.Add(cmd, "")
	cmd.SetErr(&commandtest.Journal{})
	cmd.SetIn(strings.NewReader("piped\n"))
	cmd.SetArgs(append([]string{}, args...))
	if err := cmd.Execute(); err != nil {
		return "", err
	}
	return c.Address.String() + " " + c.Key + " of " + c.KeyFrom, nil
}

// Each key is found in its turn, and sent only where it belongs.
func TestWhereKeysComeFrom(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv(KeyVariable, "")
	try := func(want string, args ...string) {
		t.Helper()
		got, err := found(dir, args...)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && got != want {
			t.Errorf("%q: %s, %v, want %s", args, got, err, want)
		}
	}
	try("give an API key by --key-file or AGENTSIGNAL_API_KEY, or log in")
	try("for the demo, give its data directory by --data-dir: " + dir + " has no demo.key")
	try("there is no profile work: agentsignal login --profile work makes it", "--profile", "work")
	try("is no name of a profile", "--profile", "../x")

	commandtest.Must(t, WritePrivate(filepath.Join(dir, DemoKeyFile), []byte("demo\n")))
	demo := " demo of " + filepath.Join(dir, DemoKeyFile)
	try("http://localhost:8080" + demo)
	try("http://127.0.0.1:9"+demo, "--url", "127.0.0.1:9")
	try("give an API key", "--url", "https://example.com") // the demo is not there

	for name, p := range map[string]Profile{DefaultProfile: {URL: "https://own.example.com", Key: "own"},
		"work": {URL: "https://work.example.com", Key: "work"}} {
		path, err := p.Save(name)
		commandtest.Must(t, err)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	try("https://own.example.com own of the profile default")
	try("https://own.example.com own of the profile default", "--url", "wss://own.example.com/ws/dashboard")
	try("http://localhost:8080"+demo, "--url", "localhost:8080") // the profile is for another service
	try("https://work.example.com work of the profile work", "--profile", "work")
	try("https://other.example.com work of the profile work", "--profile", "work", "--url", "https://other.example.com")

	t.Setenv(KeyVariable, "Bearer variable ")
	try("http://localhost:8080 variable of AGENTSIGNAL_API_KEY")
	try("https://work.example.com work of the profile work", "--profile", "work")
	try("http://localhost:8080 flag of --key", "--key", "flag")
	try("http://localhost:8080 piped of --key-file", "--key-file", "-")
	try("--key-file: open nosuch", "--key-file", "nosuch")
	try("--url: the scheme", "--url", "ftp://x")
	try("characters that no key has", "--key", "a b")

	// A file that others can read is no secret any more.
	t.Setenv(KeyVariable, "")
	path, err := ProfilePath("work")
	commandtest.Must(t, err)
	commandtest.Must(t, os.Chmod(path, 0o640))
	try("others can read "+path, "--profile", "work")
	commandtest.Must(t, os.WriteFile(path, []byte(`{"url":"https://work.example.com"}`), 0o600))
	commandtest.Must(t, os.Chmod(path, 0o600))
	try("it has no api_key: agentsignal login --profile work makes it again", "--profile", "work")
}

func TestPrivateFilesAreReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign")
	commandtest.Must(t, os.WriteFile(foreign, []byte("theirs"), 0o644))
	path := filepath.Join(dir, "key")
	commandtest.Must(t, os.Symlink(foreign, path))
	commandtest.Must(t, WritePrivate(path, []byte("ours")))
	text, err := ReadPrivate(path)
	other, _ := os.ReadFile(foreign)
	if string(text) != "ours" || err != nil || string(other) != "theirs" {
		t.Errorf("%q, %v; the file behind the link has %q", text, err, other)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := WritePrivate(filepath.Join(dir, "missing", "key"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a directory that does not exist: %v", err)
	}
}

// The file of --cacert, or else that of the profile, is trusted beside the authorities of the system.
func TestAuthorities(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"ready"}`)
	}))
	t.Cleanup(s.Close)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	file := commandtest.Written(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	ask := func(args ...string) error {
		f := Flags{}
		cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Client(cmd)
			if err == nil {
				_, err = c.Ready(cmd.Context())
			}
			return err
		}}
		f.Add(cmd, "")
		cmd.SetErr(&commandtest.Journal{})
		cmd.SetArgs(args)
		return cmd.Execute()
	}
	want := func(part string, err error) {
		t.Helper()
		if (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
	}
	here := []string{"--url", s.URL, "--key", "k"}
	want("is not trusted", ask(here...))
	want("", ask(append(here, "--cacert", file)...))
	want("--cacert: open nosuch", ask(append(here, "--cacert", "nosuch")...))
	want("has no certificate in PEM", ask(append(here, "--cacert", commandtest.Written(t, "x"))...))
	for name, p := range map[string]Profile{DefaultProfile: {URL: s.URL, Key: "own", Authorities: file},
		"work": {URL: s.URL, Key: "work", Authorities: file}} {
		_, err := p.Save(name)
		commandtest.Must(t, err)
	}
	want("", ask())
	want("", ask("--profile", "work"))
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"nothing listens at host:1: start the service, or give its address by --url": &client.ConnectError{
			Kind: client.NotListening, Host: "host:1"},
		`there is no host "host": see --url`: &client.ConnectError{Kind: client.NoHost, Host: "host:1"},
		// The detail is that of the service.
		"the service refuses the key (401): The token is unknown, revoked or expired: use another API key, or log in again. " +
			"See agentsignal key list and agentsignal login": &client.Problem{Status: 401,
			Detail: "The token is unknown, revoked or expired: use another API key, or log in again."},
		"the service refuses the key (401): no: the key is that of the profile work: agentsignal login --profile work makes " +
			"a new one": &client.Problem{Status: 401, Detail: "no", KeyFrom: ofProfile + "work"},
		"the service refuses the key (401): no: the key is from --key: agentsignal key create makes a new one": &client.Problem{
			Status: 401, Detail: "no", KeyFrom: "--key"},
		"the service refuses the key (401): its checksum does not fit, so it has a typing error or is not whole: the key is " +
			"from --key: copy it again": &client.Problem{Status: 401, KeyFrom: "--key", Mistyped: true},
		"the service refuses the login (401): It is wrong. On the machine of the service, agentsignal account set-password " +
			"sets a new password": &client.Problem{Status: 401, Code: "invalid_credentials", Detail: "It is wrong."},
		"the certificate of host:1 is not trusted: x509: certificate signed by unknown authority: if you trust its authority, " +
			"give a file with the certificate of that by --cacert": &client.ConnectError{
			Kind: client.NotTrusted, Host: "host:1", Err: x509.UnknownAuthorityError{}},
		"the certificate of host:1 is not trusted: expired": &client.ConnectError{
			Kind: client.NotTrusted, Host: "host:1", Err: errors.New("expired")},
		"the service refuses the request (403): no: use a key with the scope signals:read": &client.Problem{
			Status: 403, Code: "insufficient_scope", Detail: "no", RequiredScope: "signals:read"},
		"the service refuses the request (404): \ufffd[2Jx": &client.Problem{Status: 404, Code: "not_found", Detail: "\x1b[2Jx"},
		"the service refuses the request (400): /asset: did you mean BTC? agentsignal assets lists all": &client.Problem{
			Status: 400, Errors: []client.Error{{Pointer: "/asset", Detail: "did you mean BTC? GET /v1/assets lists all"}}},
		"plain": errors.New("plain"),
	} {
		if got := Explain(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if Explain(nil) != nil {
		t.Error("no error is explained")
	}
}

func FuzzProfile(f *testing.F) {
	f.Add([]byte(`{"url":"https://example.com","api_key":"ask_x"}`))
	f.Add([]byte(`{"url":1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parseProfile(text)
		if err == nil && (p.Key == "" || p.URL == "") {
			t.Errorf("%q is read as %+v", text, p)
		}
	})
}
