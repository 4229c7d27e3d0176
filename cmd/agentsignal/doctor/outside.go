package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/actors/webhook/mail"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
)

// checkMail connects to the mail server.
func checkMail(ctx context.Context, c configs.Email, hosts *reached) []Check {
	const name = "server"
	if c.SMTPURL == "" {
		return []Check{ok(name, "none (email.smtp_url)", "Owners of failing webhooks get no mail: it is only logged.")}
	}
	smtp, err := mail.NewSMTP(string(c.SMTPURL), c.From, mail.Options{})
	if err != nil {
		return []Check{fault(name, err.Error(), "The service does not start.", "Correct email.smtp_url and email.from.")}
	}
	found, err := smtp.Check(ctx)
	hosts.add(err == nil)
	if err != nil {
		return []Check{fault(name, found.Address+": "+err.Error(),
			"Owners of failing webhooks get no mail until it works; mails are tried again.",
			"Correct email.smtp_url, or the way to that server.")}
	}
	login := "no login"
	if found.Login {
		login = "login accepted"
	}
	if found.TLS == "" {
		return []Check{warning(name, found.Address+" without TLS, "+login,
			"Addresses of clients and of their webhooks go over the network as plain text.",
			"Use smtps://, or a server that offers STARTTLS.")}
	}
	return []Check{ok(name, fmt.Sprintf("%s by %s, %s; no mail was sent", found.Address, found.TLS, login), "")}
}

// checkOut checks what requests to other hosts depend on.
func checkOut(c configs.Config, environ []string, hosts *reached) []Check {
	return []Check{checkGuard(c.Webhooks), checkAuthorities(), checkProxies(environ), checkReached(hosts)}
}

// linkLocal is where clouds serve the credentials of a machine.
var linkLocal = netip.MustParseAddr("169.254.169.254")

// checkGuard checks where webhooks may be delivered to.
func checkGuard(c configs.Webhooks) Check {
	const name = "webhooks"
	networks := strings.Join(c.AllowedNetworks, ", ")
	tooWide := slices.ContainsFunc(c.AllowedNetworks, func(n string) bool {
		p, err := netip.ParsePrefix(n)
		return err == nil && (p.Bits() == 0 || p.Contains(linkLocal))
	})
	switch {
	case tooWide:
		return warning(name, "also to "+networks+" (webhooks.allowed_networks)",
			"Any client can make the service send requests to this machine and its network, also to credentials of a cloud.",
			"Allow only the networks of endpoints.")
	case c.AllowHTTP:
		return warning(name, "also without TLS (webhooks.allow_http)",
			"What is delivered can be read and, without a check of its signature, be changed on the way.",
			"Set webhooks.allow_http to false once all endpoints have HTTPS.")
	case networks != "":
		return ok(name, "to public addresses over HTTPS, and to "+networks, "Clients can send requests into these networks.")
	}
	return ok(name, "only to public addresses over HTTPS", "Endpoints in your own network need webhooks.allowed_networks.")
}

// checkAuthorities checks whether certificates of other hosts can be verified.
func checkAuthorities() Check {
	pool, err := x509.SystemCertPool()
	if err != nil || pool.Equal(x509.NewCertPool()) {
		return fault("authorities", "this system has no certificates of authorities",
			"No HTTPS to other hosts can be verified: webhooks and real sources fail.", "Install the package ca-certificates.")
	}
	return ok("authorities", "the certificates of the system", "")
}

// checkProxies reports the proxies in the environment.
func checkProxies(environ []string) Check {
	var names []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if value != "" && slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY"}, strings.ToUpper(name)) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ok("proxy", "none in this environment", "")
	}
	slices.Sort(names)
	return ok("proxy", strings.Join(names, ", "),
		"Sources and the writer of texts use it. Webhooks, mails and Redis do not: they need a direct way.")
}

// checkReached sums up whether hosts outside can be reached.
func checkReached(hosts *reached) Check {
	const name = "other hosts"
	switch fact := fmt.Sprintf("%d of %d answered", hosts.answered, hosts.tried); {
	case hosts.tried == 0:
		return ok(name, "not tried, as the settings name none", "Whether endpoints of webhooks can be reached is not known.")
	case hosts.answered == 0:
		return warning(name, fact, "Names are not resolved, or the way out is closed: webhooks are likely to fail, too.",
			"Look at the resolver, at firewalls and at the proxy of this machine.")
	default:
		return ok(name, fact, "")
	}
}

// checkSources checks the sources of prices, news, weather and texts.
func checkSources(ctx context.Context, c configs.Config, hosts *reached) []Check {
	found, err := source.CheckHealth(ctx, c.Market.Source, service.RealSources(c.Market), time.Now)
	if err != nil {
		return []Check{fault("prices", err.Error(), "The service does not start.", "Correct market.source.")}
	}
	prices, feeds := found[:len(found)-len(c.Market.NewsFeeds)], found[len(found)-len(c.Market.NewsFeeds):]
	works := slices.ContainsFunc(prices, func(h source.HealthCheck) bool { return h.Works })
	var checks []Check
	add := func(h source.HealthCheck, meaning string, grave bool) {
		local := h.Source == source.Stream || strings.HasSuffix(h.Source, simulated.Name)
		if !local {
			hosts.add(h.Works)
		}
		fact := h.Note
		if h.Works && !local {
			fact = answered(h)
		}
		const do = "Wait for it, or correct its settings and the way to it."
		switch {
		case h.Works:
			checks = append(checks, ok(h.Source, fact, ""))
		case grave:
			checks = append(checks, fault(h.Source, fact, meaning, do))
		default:
			checks = append(checks, warning(h.Source, fact, meaning, do))
		}
	}
	for _, h := range prices {
		if !works {
			add(h, "No configured source of prices works: runs fail, and open signals wait.", true)
			continue
		}
		add(h, "The next source that lists an asset stands in.", false)
	}
	if c.Market.SourceByDefault {
		checks = append(checks, warning("prices", "simulated, as market.source is not set",
			"Signals are about prices that do not exist.", "Set market.source; simulated keeps these without this warning."))
	}
	for _, h := range feeds {
		add(h, "The strategy sentiment has no news from it.", false)
	}
	add(service.CheckWeather(ctx, c), "Runs of the agent weather fail.", false)
	if c.Weather.Source == weather.SimulatedName {
		last := &checks[len(checks)-1]
		last.Fact = "makes its forecasts itself"
	}
	if c.Content.ChatURL != "" {
		checks = append(checks, checkChat(ctx, c.Content.ChatURL, hosts))
	}
	return checks
}

// answered describes a source that works.
func answered(h source.HealthCheck) string {
	fact := fmt.Sprintf("%s, in %s", h.Note, h.Took.Round(time.Millisecond))
	if h.Age > 0 {
		fact += fmt.Sprintf(", newest %s old", h.Age.Round(time.Second))
	}
	if h.Skew != 0 {
		fact += fmt.Sprintf(", its clock differs by %s", h.Skew.Round(time.Millisecond))
	}
	return fact
}

// checkChat connects to the endpoint that writes texts, and sends no request, which might cost money.
func checkChat(ctx context.Context, address string, hosts *reached) Check {
	const name = "content.chat_url"
	u, err := url.Parse(address)
	if err != nil {
		return fault(name, "it is not valid", "The service does not start.", "Correct content.chat_url.")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	host := net.JoinHostPort(u.Hostname(), port)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if u.Scheme == "https" {
		dialer = &tls.Dialer{}
	}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	hosts.add(err == nil)
	if err != nil {
		return warning(name, err.Error(), "The built-in writer makes the texts of the agent seo.",
			"Correct content.chat_url, or the way to it; a proxy in the environment is not tried here.")
	}
	_ = conn.Close()
	return ok(name, host+" takes connections; no request was sent", "")
}

// connectTimeout limits the connection to the writer of texts.
const connectTimeout = 10 * time.Second
