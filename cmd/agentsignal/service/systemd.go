package service

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// watchdogShare is how often the process reports that it works in the time that systemd waits for it.
const watchdogShare = 3

// notifier notifies the system's manager, if that has started the process and waits for messages.
type notifier struct{ log *slog.Logger }

// notify sends a message.
func (n notifier) notify(fields ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(fields, "\n")); err != nil {
		n.log.Warn("systemd was not notified", "err", err)
	}
}

// notifyEnd announces the end of the process, and how long it may take.
func (n notifier) notifyEnd(limit time.Duration) {
	n.notify(daemon.SdNotifyStopping, "EXTEND_TIMEOUT_USEC="+strconv.FormatInt(limit.Microseconds(), 10))
}

// feedWatchdog reports that the process works, until stop is called. Without reports in the
// time that the unit sets, systemd ends the process and starts it again. There is no report while
// alive fails.
func (n notifier) feedWatchdog(alive func(context.Context) error) (stop func()) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		n.log.Warn("the watchdog of systemd is not known", "err", err)
	}
	if interval <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = every(ctx, n.log, interval/watchdogShare, func() {
			if err := alive(ctx); err != nil {
				n.log.Warn("the watchdog of systemd is not fed", "err", err)
				return
			}
			n.notify(daemon.SdNotifyWatchdog)
		})
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
