package source

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	MaxAssetLength = 64 // characters
	maxNumberBytes = 48
	minPrice       = 1e-9
	maxPrice       = 1e12
	maxVolume      = 1e18
	// earliestTime is in 2001. Milliseconds since 1970 have 13 digits since then, and shorter times
	// are in seconds.
	earliestTime = 1_000_000_000_000
	// futureMS is how far the clocks of writers may be ahead.
	futureMS = 5_000
)

// ParseTick decodes an entry of a stream of ticks. Asset is the name as written. Source is the field
// of one of our own ticks, and Stream for a tick from outside, which must not pass for a source.
func ParseTick(stream marketdata.TickStream, e *marketdata.Entry) (t marketdata.AssetTick, skipped prices.Reason) {
	if e.Tick != nil {
		return *e.Tick, checkRoundTick(e)
	}
	_, named := e.Fields["source"]
	_, missed := e.Fields["missed"]
	switch {
	case !onlyHas(e.Fields, tickFields), stream == marketdata.OwnTicks && !named:
		return t, prices.SkipFields
	case stream == marketdata.GivenTicks && (named || missed):
		return t, prices.SkipForged
	}
	t.Source, t.Time = Stream, e.Position.MS
	if t.Asset, t.Price, skipped = nameAndNumber(e.Fields, "price"); skipped != "" {
		return t, skipped
	}
	if skipped = checkPrice(t.Price); skipped != "" {
		return t, skipped
	}
	if text, ok := e.Fields["volume"]; ok {
		if t.Volume, skipped = parseVolume(text); skipped != "" {
			return t, skipped
		}
	}
	if text, ok := e.Fields["time"]; ok {
		if t.Time, skipped = parseTime(text); skipped != "" {
			return t, skipped
		}
		if t.Time > e.Position.MS+futureMS {
			return t, prices.SkipTime
		}
	}
	if source, ok := e.Fields["source"]; ok {
		if source == Stream || !slices.Contains(allNames, source) {
			return t, prices.SkipFields
		}
		t.Source = source
	}
	if text, ok := e.Fields["missed"]; ok {
		if t.Missed, skipped = parseTime(text); skipped != "" {
			return t, skipped
		}
	}
	return t, ""
}

// checkRoundTick returns why the tick of a round is not valid, by the rules for the fields of an entry.
func checkRoundTick(e *marketdata.Entry) prices.Reason {
	t := e.Tick
	switch {
	case !validName(t.Asset):
		return prices.SkipAsset
	case checkPrice(t.Price) != "":
		return prices.SkipPrice
	case !(0 <= t.Volume && t.Volume <= maxVolume):
		return prices.SkipVolume
	case t.Time < earliestTime || t.Time > e.Position.MS+futureMS || t.Missed != 0 && t.Missed < earliestTime:
		return prices.SkipTime
	case t.Source == Stream || !slices.Contains(allNames, t.Source):
		return prices.SkipFields
	}
	return ""
}

// The fields of entries of ticks and of bars.
var (
	tickFields = []string{"asset", "price", "volume", "time", "source", "missed"}
	barFields  = []string{"asset", "timeframe", "open_time", "open", "high", "low", "close", "volume"}
)

// onlyHas reports whether fields has no others than known.
func onlyHas(fields map[string]string, known []string) bool {
	for field := range fields {
		if !slices.Contains(known, field) {
			return false
		}
	}
	return true
}

// ParseBar decodes an entry of market:bars. Asset is the name as written. CheckBarTime checks
// whether the bar is aligned and closed, which depends on the time of the asset.
func ParseBar(e *marketdata.Entry) (b marketdata.AssetBar, skipped prices.Reason) {
	required := len(barFields)
	if _, ok := e.Fields["volume"]; !ok {
		required-- // it is optional
	}
	if len(e.Fields) != required || !onlyHas(e.Fields, barFields) {
		return b, prices.SkipFields
	}
	b.Given = true
	b.Timeframe = signal.Timeframe(e.Fields["timeframe"])
	if b.Asset, b.Open, skipped = nameAndNumber(e.Fields, "open"); skipped != "" {
		return b, skipped
	}
	for _, p := range [...]struct {
		field string
		value *float64
	}{{"open", &b.Open}, {"high", &b.High}, {"low", &b.Low}, {"close", &b.Close}} {
		if *p.value, skipped = parseNumber(e.Fields[p.field]); skipped != "" {
			return b, skipped
		}
		if skipped = checkPrice(*p.value); skipped != "" {
			return b, skipped
		}
	}
	if text, ok := e.Fields["volume"]; ok {
		if b.Volume, skipped = parseVolume(text); skipped != "" {
			return b, skipped
		}
	}
	if b.High < max(b.Open, b.Close) || b.Low > min(b.Open, b.Close) {
		return b, prices.SkipRange
	}
	if _, ok := prices.FrameOf(b.Timeframe); !ok {
		return b, prices.SkipTimeframe
	}
	b.OpenTime, skipped = parseTime(e.Fields["open_time"])
	return b, skipped
}

// CheckBarTime returns why b is not a bar of g that was closed when its entry was written at ms, or
// an empty reason. It sets the CloseTime of b.
func CheckBarTime(b *marketdata.AssetBar, g prices.Grid, ms int64) prices.Reason {
	frame, ok := prices.FrameOf(b.Timeframe)
	if !ok {
		return prices.SkipTimeframe
	}
	// The calendar would overflow far in the future.
	if b.OpenTime > ms || !g.Aligned(frame, b.OpenTime) {
		return prices.SkipTime
	}
	if _, b.CloseTime = g.Interval(frame, b.OpenTime); b.CloseTime > ms+futureMS {
		return prices.SkipTime
	}
	return ""
}

func nameAndNumber(fields map[string]string, number string) (string, float64, prices.Reason) {
	name, ok := fields["asset"]
	text, ok2 := fields[number]
	if !ok || !ok2 {
		return "", 0, prices.SkipFields
	}
	if !validName(name) {
		return "", 0, prices.SkipAsset
	}
	value, skipped := parseNumber(text)
	return name, value, skipped
}

// validName reports whether name is a valid name of an asset: 1 to 64 characters, without control
// characters and without spaces at the ends.
func validName(name string) bool {
	if name == "" || len(name) > 4*MaxAssetLength || !utf8.ValidString(name) ||
		utf8.RuneCountInString(name) > MaxAssetLength || strings.TrimSpace(name) != name {
		return false
	}
	for _, r := range name {
		if r < ' ' || 0x7f <= r && r < 0xa0 {
			return false
		}
	}
	return true
}

// parseNumber parses a plain decimal number. strconv alone would also accept NaN, Inf and hexadecimals.
func parseNumber(text string) (float64, prices.Reason) {
	if len(text) > maxNumberBytes || strings.Trim(text, "0123456789.+-eE") != "" {
		return 0, prices.SkipNumber
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, prices.SkipNumber
	}
	return v, ""
}

func checkPrice(v float64) prices.Reason {
	if !(minPrice <= v && v <= maxPrice) { // NaN is in no range
		return prices.SkipPrice
	}
	return ""
}

func parseVolume(text string) (float64, prices.Reason) {
	v, skipped := parseNumber(text)
	if skipped != "" {
		return 0, skipped
	}
	if v < 0 || v > maxVolume {
		return 0, prices.SkipVolume
	}
	return v, ""
}

func parseTime(text string) (int64, prices.Reason) {
	ms, err := strconv.ParseUint(text, 10, 63) // which accepts no sign
	if err != nil || len(text) > 15 || ms < earliestTime {
		return 0, prices.SkipTime
	}
	return int64(ms), ""
}
