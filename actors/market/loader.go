package market

import (
	"context"
	"errors"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

type accountKey struct{}

// For returns a context in which assets are asked for on behalf of an account, which has a share of
// the assets that real sources may keep.
func For(ctx context.Context, account signal.AccountID) context.Context {
	return context.WithValue(ctx, accountKey{}, account)
}

// loader gets the watches of assets, which it has started and read if necessary. It is safe for concurrent use.
type loader struct {
	names   *names
	store   Store
	watches *watches
	parent  engine.Ref    // of the asset actors
	takeUp  time.Duration // as in Options
}

// watched returns the watch of the asset that name means, once the timeframe is read.
func (l *loader) watched(ctx context.Context, name string, tf signal.Timeframe) (w *watch, frame int, err error) {
	frame, ok := prices.FrameOf(tf)
	if !ok {
		return nil, 0, &signal.RunError{Code: signal.Internal, Message: "timeframe is not known"}
	}
	w = l.watches.get(l.names.key(name))
	if w == nil || w.series[frame].Load() == nil {
		w, err = l.load(ctx, name, frame)
	}
	if w != nil && !w.used.Load() {
		w.used.Store(true)
	}
	return w, frame, err
}

// load returns the watch of the asset that name means, once the frame is read.
func (l *loader) load(ctx context.Context, name string, frame int) (*watch, error) {
	key := l.names.key(name)
	w := l.watches.get(key)
	known := w != nil
	if !known {
		// Names come from outside, so only an asset with a record gets an actor.
		record, err := l.record(ctx, name, key)
		if err != nil {
			return nil, l.unknown(name, err)
		}
		w, err = engine.Ask(ctx, l.parent, func(reply chan<- *watch) any { return watchAsset{key, record, reply} })
		if err != nil {
			return nil, unreachable(err)
		}
	}
	err := loadFrame(ctx, w, frame)
	if known && signal.KindOf(err) == signal.KindNotFound {
		// The asset was removed while it was not needed.
		if _, err = l.record(ctx, name, key); err == nil {
			err = loadFrame(ctx, w, frame)
		}
	}
	if err != nil {
		return nil, l.unknown(name, err)
	}
	return w, nil
}

func loadFrame(ctx context.Context, w *watch, frame int) error {
	err, failed := engine.Ask(ctx, w.ref, func(reply chan<- error) any { return loadSeries{frame, reply} })
	if failed != nil {
		return unreachable(failed)
	}
	return err
}

// record returns the record of an asset, and waits for it if necessary: at most Options.TakeUp for
// the feeder to take up an asset of a real source, which may not answer, and until ctx ends for the
// simulated market to begin.
func (l *loader) record(ctx context.Context, name, key string) (marketdata.Asset, error) {
	takenUp := l.names.isReal(name)
	if takenUp {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.takeUp)
		defer cancel()
	}
	for {
		record, _, err := l.store.Asset(ctx, key)
		if signal.KindOf(err) != signal.KindNotFound || !takenUp && !l.names.isSimulated(name) {
			return record, err
		}
		if takenUp {
			account, _ := ctx.Value(accountKey{}).(signal.AccountID)
			refused, failed := l.store.Want(ctx, account, l.names.wanted(name))
			switch {
			case failed != nil:
				return record, failed
			case refused == string(source.RefusedUnknown):
				return record, err
			case refused != "":
				return record, notTakenUp(name, refused)
			}
			err = passing("the prices of " + name + " are being read")
		}
		if !backoff.Sleep(ctx, pollEvery) {
			return record, err
		}
	}
}

// unknown returns the error of a run on an asset whose record could not be read because of err.
func (l *loader) unknown(name string, err error) *signal.RunError {
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		return e
	}
	if signal.KindOf(err) != signal.KindNotFound {
		return unreachable(err)
	}
	if l.names.isSimulated(name) {
		return passing("the simulated market is about to start")
	}
	return &signal.RunError{Code: signal.DataUnavailable, Message: "no source knows " + name}
}

// passing returns the error for prices that will be there in a moment.
func passing(message string) *signal.RunError {
	return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, RetryAfter: retryAfter, Passing: true,
		Message: message}
}

// unreachable returns the error for prices that cannot be read because of cause.
func unreachable(cause error) *signal.RunError {
	err := passing("prices cannot be read at the moment")
	err.Cause = errors.Join(errNotRead, cause)
	return err
}

// notTakenUp returns the error for an asset that a source may have and that is refused now.
func notTakenUp(name, refused string) *signal.RunError {
	err := &signal.RunError{Code: signal.DataUnavailable, Retryable: true}
	switch source.Refusal(refused) {
	case source.RefusedShare:
		err.RetryAfter = source.KeepUnused
		err.Message = "the account has its share of the assets of real sources: " + name + " is not added"
	case source.RefusedFull:
		err.RetryAfter, err.Message = source.FullFor, "real sources have too many assets: "+name+" is not added"
	default:
		err.RetryAfter, err.Message = source.SilentFor, "no source gives prices of "+name+" at the moment"
	}
	return err
}
