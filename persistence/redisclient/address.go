package redisclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The errors of this file never quote the address, since the invalid part may be its password.
var (
	errURLScheme = errors.New("redis.url: use redis://host:6379, unix:///path, redis+cluster://host:port,host:port " +
		"or redis+sentinel://host:port/master, or rediss in place of redis for TLS")
	errURLText = errors.New("redis.url is not valid: the form is redis://user:password@host:6379/0; " +
		"in a user or a password, write / @ % and blanks as %2F %40 %25 and %20")
	errURLHost = errors.New("redis.url: each host must be host:port")
)

// CheckURL returns an error if Options.URL or Options.CAFile is not valid.
func CheckURL(address, caFile string) error {
	_, err := parseURL(address, caFile)
	return err
}

// FailsOver reports whether a valid address is that of sentinels or a cluster.
func FailsOver(address string) bool {
	scheme, _, _ := strings.Cut(address, "://")
	return strings.Contains(scheme, "+")
}

// parseURL reads the forms of Options.URL.
func parseURL(address, caFile string) (*redis.UniversalOptions, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return nil, errURLScheme
	}
	var o *redis.UniversalOptions
	var err error
	switch scheme {
	case "redis", "rediss", "unix":
		o, err = parseServerURL(address)
	case "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel":
		o, err = parseHostsURL(strings.HasSuffix(scheme, "cluster"), rest)
	default:
		return nil, errURLScheme
	}
	if err != nil {
		return nil, err
	}
	encrypted := strings.HasPrefix(scheme, "rediss")
	if !encrypted && caFile != "" {
		return nil, errors.New("redis.ca_file is for TLS: start redis.url with rediss, or remove the file")
	}
	if encrypted {
		o.TLSConfig, err = tlsConfig(caFile)
	}
	return o, err
}

// tlsConfig requires a certificate for the name of the server.
func tlsConfig(caFile string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return c, nil
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("redis.ca_file: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("redis.ca_file: %s has no certificate in PEM", caFile)
	}
	return c, nil
}

// parseServerURL reads the address of one server.
func parseServerURL(address string) (*redis.UniversalOptions, error) {
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, errURLText
	}
	u := &redis.UniversalOptions{Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, DB: o.DB}
	if o.Network == "unix" {
		u.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", o.Addr)
		}
	}
	return u, nil
}

// parseHostsURL reads what follows the scheme of a cluster or of sentinels.
func parseHostsURL(cluster bool, rest string) (*redis.UniversalOptions, error) {
	// net/url refuses several hosts with ports, so they are cut out first.
	authority, path, _ := strings.Cut(rest, "/")
	user, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, hosts = authority[:at+1], authority[at+1:]
	}
	parsed, err := url.Parse("redis://" + user + "host/" + path)
	if err != nil {
		return nil, errURLText
	}
	u := &redis.UniversalOptions{Addrs: strings.Split(hosts, ","), IsClusterMode: cluster}
	for _, a := range u.Addrs {
		_, port, err := net.SplitHostPort(a)
		if _, err2 := strconv.ParseUint(port, 10, 16); err != nil || err2 != nil {
			return nil, errURLHost
		}
	}
	if parsed.User != nil {
		u.Username = parsed.User.Username()
		u.Password, _ = parsed.User.Password()
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return nil, errURLText
	}
	known := []string{}
	if cluster && strings.Trim(parsed.Path, "/") != "" {
		return nil, errURLText // a cluster has only database 0, and a / in a password ends the hosts
	}
	if !cluster {
		known = []string{"sentinel_username", "sentinel_password"}
		u.SentinelUsername, u.SentinelPassword = query.Get(known[0]), query.Get(known[1])
		if u.MasterName = strings.Trim(parsed.Path, "/"); u.MasterName == "" {
			return nil, errors.New("redis.url: sentinels need the name of the master: " +
				"redis+sentinel://host:26379/mymaster")
		}
	}
	for name := range query {
		if !slices.Contains(known, name) {
			return nil, errors.New("redis.url: only sentinels have options: sentinel_username and sentinel_password")
		}
	}
	return u, nil
}
