package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// listen binds the address of the service.
func (p *process) listen(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if p.listener, err = lc.Listen(ctx, "tcp", p.config.HTTP.Addr); err != nil {
		return listenFault("http.addr", err)
	}
	p.undo.Add("listener", func(context.Context) error {
		p.listener.Close() // the server has closed it if it served
		return nil
	})
	return nil
}

// listenAdmin binds the address for operators, if there is one.
func (p *process) listenAdmin(ctx context.Context) error {
	if p.config.HTTP.AdminAddr == "" {
		return nil
	}
	var lc net.ListenConfig
	var err error
	if p.admin, err = lc.Listen(ctx, "tcp", p.config.HTTP.AdminAddr); err != nil {
		return listenFault("http.admin_addr", err)
	}
	p.undo.Add("admin listener", func(context.Context) error {
		p.admin.Close()
		return nil
	})
	return nil
}

// listenFault explains why listening at the address of a setting failed.
func listenFault(setting string, err error) error {
	advice := "choose another address"
	if errors.Is(err, syscall.EADDRINUSE) {
		advice = "stop what listens there, or choose another address"
	}
	return fmt.Errorf("%s: %w: %s", setting, err, advice)
}

// serveAdmin serves metrics and profiles to operators, if http.admin_addr is set.
func (p *process) serveAdmin(context.Context) error {
	if p.admin == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: adminHeaderTime}
	if err := s.Serve(p.admin); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
