package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/http/client"
)

// addressTimeout limits the question what listens at an address of this machine.
const addressTimeout = 3 * time.Second

// checkAddresses checks whether the service can listen at its addresses, by listening there for a moment.
func checkAddresses(ctx context.Context, c configs.Config) []Check {
	checks := []Check{checkAddress(ctx, "http.addr", c.HTTP.Addr, func(ctx context.Context) error {
		_, err := atLocal(c.HTTP.Addr, c.TLS.CertFile != "").Ready(ctx)
		return err
	})}
	if c.HTTP.AdminAddr != "" {
		checks = append(checks, checkAddress(ctx, "http.admin_addr", c.HTTP.AdminAddr, func(ctx context.Context) error {
			text, err := atLocal(c.HTTP.AdminAddr, false).Get(ctx, "/metrics")
			if err == nil && !strings.Contains(string(text), "\nagentsignal_") {
				err = errors.New("these are the metrics of another program")
			}
			return err
		}))
	}
	return checks
}

// checkAddress checks the address of a setting. If it is in use, ask fails unless this program answers there.
func checkAddress(ctx context.Context, setting, addr string, ask func(context.Context) error) Check {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err == nil {
		l.Close()
		return ok(setting, addr+" is free", "")
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fault(setting, err.Error(), "The service does not start.", "Choose another "+setting+".")
	}
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	if ask(ctx) == nil {
		return ok(setting, "an agentsignal service listens at "+addr, "A second one needs an address of its own.")
	}
	return fault(setting, addr+" is in use, and no agentsignal service answers there", "The service does not start.",
		"Stop what listens there, or choose another "+setting+".")
}

// atLocal returns a client of what listens at addr on this machine. It sends no secret, so any certificate will do.
func atLocal(addr string, withTLS bool) *client.Client {
	address, err := client.ParseAddress(remote.LocalURL(addr, withTLS))
	if err != nil {
		panic(err) // addr has been checked
	}
	c := client.New(address, "")
	c.HTTP = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}
