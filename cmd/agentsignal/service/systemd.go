package service

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

const (
	// watchdogShare is how often the process reports that it works in the time that systemd waits for it.
	watchdogShare = 3
	// aliveTimeout is that of /healthz.
	aliveTimeout = time.Second
)

// notifySystemd sends a message to systemd, if it has started the process and waits for one.
func (p *process) notifySystemd(fields ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(fields, "\n")); err != nil {
		p.log.Warn("systemd was not notified", "err", err)
	}
}

// notifyEnd announces the end of the process, and how long it may take.
func (p *process) notifyEnd() {
	limit := time.Duration(p.config.Shutdown.Delay) + 2*p.options.shutdown // a hand-over has a limit of its own
	p.notifySystemd(daemon.SdNotifyStopping, "EXTEND_TIMEOUT_USEC="+strconv.FormatInt(limit.Microseconds(), 10))
}

// feedWatchdog reports to systemd that the process works, until stop is called. Without reports in the
// time that the unit sets, systemd ends the process and starts it again. There is no report while
// /healthz fails.
func (p *process) feedWatchdog() (stop func()) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		p.log.Warn("the watchdog of systemd is not known", "err", err)
	}
	if interval <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = every(ctx, p.log, interval/watchdogShare, func() {
			if err := p.alive(ctx); err != nil {
				p.log.Warn("the watchdog of systemd is not fed", "err", err)
				return
			}
			p.notifySystemd(daemon.SdNotifyWatchdog)
		})
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// alive is the check of /healthz. Before the node has joined the installation there is nothing to check.
func (p *process) alive(ctx context.Context) error {
	if p.joined.Load() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	return p.system.Alive(ctx)
}
