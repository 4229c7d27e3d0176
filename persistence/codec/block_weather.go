package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Kinds of entries of the part for the fit of weather slopes. Signals are known by the positions of their
// creations.
const (
	weatherUnread  = 0
	weatherCreated = 1
	weatherLost    = 2
	weatherWon     = 3
)

// AddWeather appends the next entry for the fit of weather slopes. A creation without a prior stands for
// an entry that could not be decoded: a reader of the block gets it from the log.
func (w *BlockWriter) AddWeather(e *signal.WeatherEntry) {
	p := &w.weather
	kind := byte(weatherCreated)
	switch {
	case e.Created.IsZero() && e.Prior == 0:
		kind = weatherUnread
	case e.Won:
		kind = weatherWon
	case !e.Created.IsZero():
		kind = weatherLost
	}
	p.b = append(p.b, kind)
	p.position(e.Position)
	switch kind {
	case weatherCreated:
		p.b = appendFloat(appendFloat(AppendText(p.b, e.Commodity), e.Likelihood), e.Prior)
	case weatherLost, weatherWon: // most are not long after the creation
		p.b = binary.AppendVarint(p.b, e.Position.MS-e.Created.MS)
		p.b = binary.AppendUvarint(p.b, uint64(e.Created.Seq))
	}
}

// EachWeather calls f for each entry of the part for the fit of weather slopes, in order. The entry is valid until f
// returns. An error of f ends it; ErrBlock reports an entry that cannot be decoded.
func (b Block) EachWeather(f func(*signal.WeatherEntry) error) error {
	d := NewDecoder(b.entries)
	at := b.After
	var e signal.WeatherEntry
	for len(d.B) > 0 {
		kind := d.Byte()
		at = signal.Position{MS: at.MS + int64(d.Uvarint()), Seq: int64(d.Uvarint())}
		e = signal.WeatherEntry{Position: at}
		switch kind {
		case weatherUnread:
		case weatherCreated:
			e.Commodity = d.Text()
			e.Likelihood, e.Prior = d.float(), d.float()
		case weatherLost, weatherWon:
			e.Created = signal.Position{MS: at.MS - d.Varint(), Seq: int64(d.Uvarint())}
			e.Won = kind == weatherWon
		default:
			d.Fail(fmt.Errorf("weather entry of kind %d is not known", kind))
		}
		if d.Err != nil {
			return fmt.Errorf("%w: %w", ErrBlock, d.Err)
		}
		if err := f(&e); err != nil {
			return err
		}
	}
	return nil
}
