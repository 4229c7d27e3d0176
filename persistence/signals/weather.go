package signals

import (
	"context"
	"encoding/json"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Slopes reads the signal log for the fit of weather slopes.
type Slopes struct{ passes }

// EachWeatherEntry calls f for each creation by a weather run that states a prior, and for each closing of
// any signal with a result in money, in a partition's signal log after a position, in order. An entry is
// valid until f returns. It returns the position up to which it has read, also after an error, so that a later
// call can continue there. Unreadable entries are logged and skipped.
//
// With Options.WaitReplicas f gets only what replicas have, since callers keep it. KindUnavailable:
// they are missing.
func (s *Slopes) EachWeatherEntry(
	ctx context.Context, p int, after signal.Position, f func(*signal.WeatherEntry),
) (signal.Position, error) {
	end, err := s.confirmedEnd(ctx, p)
	if err != nil {
		return after, err
	}
	scan := weatherScan{f: f}
	upTo, err := s.scanLog(ctx, p, after, end, &scan)
	s.logUnreadable(p, scan.bad.n, scan.bad.first)
	return upTo, err
}

// weatherScan decodes the signal log for EachWeatherEntry.
type weatherScan struct {
	f   func(*signal.WeatherEntry)
	bad unreadable
}

func (c *weatherScan) part(e *redisclient.Entry) []byte { return e.Body }

func (c *weatherScan) addBlock(b codec.Block, next func(at signal.Position, unread bool) (bool, error)) error {
	return b.EachWeather(func(e *signal.WeatherEntry) error {
		take, err := next(e.Position, e.Created.IsZero() && e.Prior == 0)
		if take {
			c.f(e)
		}
		return err
	})
}

// add takes one entry of the signal log.
func (c *weatherScan) add(e *redisclient.Entry) error {
	entry, err := decodeWeatherEntry(e)
	if err != nil {
		c.bad.add(err)
	} else if entry != nil {
		c.f(entry)
	}
	return nil
}

// decodeWeatherEntry returns an entry of the signal log as EachWeatherEntry gives it, or nil if it does not.
func decodeWeatherEntry(e *redisclient.Entry) (*signal.WeatherEntry, error) {
	if codec.IsClosing(e.Header) {
		c, err := codec.DecodeClosed(e.Position, e.Header)
		if err != nil || c.Closing.PnLAbsolute == nil {
			return nil, err
		}
		return &signal.WeatherEntry{Position: e.Position, Created: c.Created, Won: *c.Closing.PnLAbsolute > 0}, nil
	}
	record, err := codec.DecodeRecord(e.Position, e.Header, nil)
	if err != nil || record.Weather == nil {
		return nil, err
	}
	metadata, err := codec.UnpackMetadata(e.Body)
	if err != nil {
		return nil, err
	}
	var stated struct {
		Prior float64 `json:"prior"`
	}
	if json.Unmarshal(metadata, &stated) != nil || stated.Prior == 0 {
		return nil, nil
	}
	return &signal.WeatherEntry{Position: e.Position, Commodity: record.Weather.Commodity,
		Likelihood: record.Weather.Likelihood, Prior: stated.Prior}, nil
}
