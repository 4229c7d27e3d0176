// Package remote is what commands need to use a running service: the flags that give its address
// and a key, profiles, and what to do about each error of package client.
package remote

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/http/client"
)

// KeyVariable is the environment variable with the API key, used without a flag.
const KeyVariable = "AGENTSIGNAL_API_KEY"

// DefaultURL is the address of a service that no flag and no profile names.
const DefaultURL = "http://localhost:8080"

// DemoKeyFile is the name of the file in the data directory with the key of the demo account, and
// with no other key.
const DemoKeyFile = "demo.key"

// KeySources is the part of the help of a command that says where its key comes from.
const KeySources = "The API key comes from the first of these that has one: --key-file, --key or --profile; the variable\n" +
	KeyVariable + "; the profile \"" + DefaultProfile + "\", for the address it was made for (agentsignal login\n" +
	"makes profiles); " + DemoKeyFile + " in the data directory, where serve --demo puts the key of the demo, for a\n" +
	"service on this machine."

// Flags are the flags by which a command finds a service and a key for it.
type Flags struct {
	// DataDir returns the data directory of the service on this machine.
	DataDir func() (string, error)

	url, key, file, profile, authorities string
}

// Add adds the flags to c; purpose completes their help.
func (f *Flags) Add(c *cobra.Command, purpose string) {
	f.AddAddress(c, purpose)
	c.Flags().StringVar(&f.key, "key", "", "API key or access token"+purpose+"; others on this machine can see it")
	c.Flags().StringVar(&f.file, "key-file", "", "file with the API key, - for standard input"+purpose)
	c.Flags().StringVar(&f.profile, "profile", "", "profile with the address and the API key"+purpose)
	c.MarkFlagsMutuallyExclusive("key", "key-file", "profile")
}

// AddAddress adds the flags of the address alone.
func (f *Flags) AddAddress(c *cobra.Command, purpose string) {
	c.Flags().StringVar(&f.url, "url", "",
		"address of the service"+purpose+"; that of the profile, or "+DefaultURL+", if left out")
	c.Flags().StringVar(&f.authorities, "cacert", "",
		"file with certificates (PEM) of authorities that are trusted beside those of the system"+purpose)
}

// Address returns the address that the flag gives, else the one that is given.
func (f *Flags) Address(other string) (*url.URL, error) {
	u, err := client.ParseAddress(cmp.Or(f.url, other, DefaultURL))
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	return u, nil
}

// Authorities returns the absolute path of the file of --cacert, or "" without that flag.
func (f *Flags) Authorities() (string, error) {
	if f.authorities == "" {
		return "", nil
	}
	return filepath.Abs(f.authorities)
}

// Trust makes c trust the authorities of --cacert, or else those of the file at other, which may be "".
func (f *Flags) Trust(c *client.Client, other string) error {
	path := cmp.Or(f.authorities, other)
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--cacert: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // this system has none
	}
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("--cacert: %s has no certificate in PEM", path)
	}
	c.Trust(pool)
	return nil
}

// Client returns a client of the service with a key. Without a key it fails.
func (f *Flags) Client(cmd *cobra.Command) (*client.Client, error) {
	address, err := f.Address("")
	if err != nil {
		return nil, err
	}
	c, authorities := client.New(address, ""), ""
	err = f.given(cmd, c)
	switch {
	case err != nil:
		return nil, err
	case f.profile != "":
		p, err := ReadProfile(f.profile)
		if errors.Is(err, os.ErrNotExist) {
			const missing = "--profile: there is no profile %s: agentsignal login --profile %[1]s makes it"
			return nil, fmt.Errorf(missing, f.profile)
		}
		if err != nil {
			return nil, err
		}
		if c.Address, err = f.Address(p.URL); err != nil {
			return nil, err
		}
		c.Key, c.KeyFrom, authorities = p.Key, ofProfile+f.profile, p.Authorities
	case c.Key == "":
		if authorities, err = f.usual(c); err != nil {
			return nil, err
		}
	}
	if err := f.Trust(c, authorities); err != nil {
		return nil, err
	}
	c.Key = strings.TrimPrefix(strings.TrimSpace(c.Key), "Bearer ")
	if c.Key == "" {
		return nil, errNoKey
	}
	if strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the API key has characters that no key has: copy it again")
	}
	return c, nil
}

// errNoKey is the error of a command for which no key is found.
var errNoKey = errors.New("give an API key by --key-file or " + KeyVariable +
	", or log in: agentsignal login makes a profile, agentsignal key create a key")

// ofProfile begins client.Client.KeyFrom where the key is that of a profile, whose name follows.
const ofProfile = "the profile "

// given sets the key of a flag or else of the variable, if there is one.
func (f *Flags) given(cmd *cobra.Command, c *client.Client) error {
	switch {
	case f.profile != "":
	case f.key != "":
		command.WarnVisible(cmd, "--key", "--key-file or "+KeyVariable)
		c.Key, c.KeyFrom = f.key, "--key"
	case f.file != "":
		key, err := command.ReadSecret(cmd, f.file)
		if err == nil && key == "" {
			err = errors.New("the first line is empty")
		}
		if err != nil {
			return fmt.Errorf("--key-file: %w", err)
		}
		c.Key, c.KeyFrom = key, "--key-file"
	default:
		c.Key, c.KeyFrom = os.Getenv(KeyVariable), KeyVariable
	}
	return nil
}

// usual sets the key that is kept for the service at the address, if there is one. Without --url the
// address becomes that of the default profile, if that exists. A key is sent only where it belongs. It returns
// the file of authorities of that profile.
func (f *Flags) usual(c *client.Client) (authorities string, err error) {
	p, err := ReadProfile(DefaultProfile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err == nil {
		own, err := client.ParseAddress(p.URL)
		if err == nil && (f.url == "" || *own == *c.Address) {
			c.Address, c.Key, c.KeyFrom = own, p.Key, ofProfile+DefaultProfile
			return p.Authorities, nil
		}
	}
	if f.DataDir == nil || !isLocal(c.Address.Hostname()) {
		return "", nil
	}
	dir, err := f.DataDir()
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, DemoKeyFile)
	key, err := ReadPrivate(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("%w; for the demo, give its data directory by --data-dir: %s has no %s", errNoKey, dir, DemoKeyFile)
	case errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("%w: run this as the user of the service, or give another key by --key-file or %s",
			err, KeyVariable)
	case err != nil:
		return "", err
	}
	c.Key, c.KeyFrom = string(key), path
	return "", nil
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
