package remote

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/http/client"
)

// Explain adds to an error of a service what to do about it. The result is safe to print.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	advice := ""
	if e, ok := errors.AsType[*client.ConnectError](err); ok {
		switch e.Kind {
		case client.NotListening:
			advice = "start the service, or give its address by --url"
		case client.NoHost, client.AnotherServer:
			advice = "see --url"
		case client.NotTrusted:
			if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
				advice = "if you trust its authority, give a file with the certificate of that by --cacert"
			}
		default: // the error gives the advice
		}
	} else if p, ok := errors.AsType[*client.Problem](err); ok {
		advice = adviceOn(p)
	}
	if advice != "" {
		if strings.HasSuffix(err.Error(), ".") {
			err = fmt.Errorf("%w %s", err, strings.ToUpper(advice[:1])+advice[1:])
		} else {
			err = fmt.Errorf("%w: %s", err, advice)
		}
	}
	return printable{err}
}

// adviceOn returns what to do about an answer of the service, or "".
func adviceOn(p *client.Problem) string {
	switch {
	case p.Code == "invalid_credentials":
		return "on the machine of the service, agentsignal account set-password sets a new password"
	case p.Status == http.StatusUnauthorized:
		return adviceOnKey(p)
	case p.Code == "insufficient_scope":
		return fmt.Sprintf("use a key with the scope %s", p.RequiredScope)
	case p.Code == "account_locked":
		return fmt.Sprintf("wait %v, or agentsignal account unlock", p.RetryAfter)
	case p.RetryAfter > 0:
		return fmt.Sprintf("try again in %v", p.RetryAfter)
	case p.Code == "agent_failed" && p.Retryable:
		return "try again"
	case p.Code == "internal":
		return "the log of the service has the cause, with the request id " + p.RequestID
	}
	return ""
}

// adviceOnKey returns what to do about a key that the service refuses.
func adviceOnKey(p *client.Problem) string {
	if name, ok := strings.CutPrefix(p.KeyFrom, ofProfile); ok {
		return fmt.Sprintf("the key is that of the profile %s: agentsignal login --profile %[1]s makes a new one", name)
	}
	switch {
	case p.KeyFrom != "" && p.Mistyped:
		return fmt.Sprintf("the key is from %s: copy it again", p.KeyFrom)
	case p.KeyFrom != "":
		return fmt.Sprintf("the key is from %s: agentsignal key create makes a new one", p.KeyFrom)
	}
	return "see agentsignal key list and agentsignal login"
}

// printable is an error without control characters, which could change the terminal.
type printable struct{ error }

// Error implements error. Where the service names a request, it names the command.
func (p printable) Error() string {
	return command.Printable(strings.ReplaceAll(p.error.Error(), "GET /v1/assets lists", "agentsignal assets lists"))
}

// Unwrap returns the error.
func (p printable) Unwrap() error { return p.error }

// LocalURL returns the URL on this machine of a service that listens at addr, host:port.
func LocalURL(addr string, tls bool) string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(addr) // is bound or has been checked
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
