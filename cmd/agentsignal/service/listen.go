package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const adminHeaderTime = 10 * time.Second

// listen binds the address of a setting.
func listen(ctx context.Context, e environment, what, setting, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, listenFault(setting, err)
	}
	e.stops.Add(what, func(context.Context) error {
		l.Close() // the server has closed it if it served
		return nil
	})
	return l, nil
}

// listenFault explains why listening at the address of a setting failed.
func listenFault(setting string, err error) error {
	advice := "choose another address"
	if errors.Is(err, syscall.EADDRINUSE) {
		advice = "stop what listens there, or choose another address"
	}
	return fmt.Errorf("%s: %w: %s", setting, err, advice)
}

// admin serves metrics and profiles to operators at http.admin_addr.
type admin struct {
	listener net.Listener // nil without http.admin_addr
	registry *prometheus.Registry
}

func newAdmin(ctx context.Context, e environment) (*admin, error) {
	a := &admin{registry: e.registry}
	if e.config.HTTP.AdminAddr == "" {
		return a, nil
	}
	var err error
	a.listener, err = listen(ctx, e, "admin listener", "http.admin_addr", e.config.HTTP.AdminAddr)
	return a, err
}

// serve serves until the listener is closed.
func (a *admin) serve(context.Context) error {
	if a.listener == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: adminHeaderTime}
	if err := s.Serve(a.listener); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
