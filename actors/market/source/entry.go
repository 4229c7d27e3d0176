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

// ParseTick returns a tick from an entry of a stream of ticks. Asset is the name as written. Source is that of
// one of our own ticks, and Stream for a tick from outside, which must not pass for a source.
func ParseTick(stream marketdata.TickStream, e *marketdata.Entry) (t marketdata.AssetTick, skipped prices.Reason) {
	switch {
	case e.Tick != nil:
		t = *e.Tick
	case stream == marketdata.OwnTicks:
		skipped = prices.SkipFields // a round that cannot be read
	default:
		t, skipped = parseTickFields(e)
	}
	if skipped != "" {
		return t, skipped
	}
	return t, checkStreamTick(stream, &t, e.Position.MS)
}

// parseTickFields decodes the fields of an entry from outside. checkStreamTick checks their values.
func parseTickFields(e *marketdata.Entry) (t marketdata.AssetTick, skipped prices.Reason) {
	if !onlyHas(e.Fields, tickFields) {
		return t, prices.SkipFields
	}
	for _, own := range ownFields {
		if _, ok := e.Fields[own]; ok {
			return t, prices.SkipForged
		}
	}
	t.Source, t.Time = Stream, e.Position.MS
	if t.Asset, t.Price, skipped = nameAndNumber(e.Fields, "price"); skipped != "" {
		return t, skipped
	}
	if text, ok := e.Fields["volume"]; ok {
		if t.Volume, skipped = parseNumber(text); skipped != "" {
			return t, skipped
		}
	}
	if text, ok := e.Fields["time"]; ok {
		t.Time, skipped = parseTime(text)
	}
	return t, skipped
}

// checkStreamTick returns why a tick of a stream that was written at ms is not valid, or an empty reason.
func checkStreamTick(stream marketdata.TickStream, t *marketdata.AssetTick, ms int64) prices.Reason {
	if !validName(t.Asset) {
		return prices.SkipAsset
	}
	if skipped := checkTick(&t.Tick, ms); skipped != "" {
		return skipped
	}
	switch {
	case t.Missed != 0 && t.Missed < earliestTime:
		return prices.SkipTime
	case stream == marketdata.OwnTicks && (t.Source == Stream || !slices.Contains(allNames, t.Source)):
		return prices.SkipFields
	}
	return ""
}

// The fields of entries of ticks and of bars, and those by which an entry of ticks would pass for one of ours.
var (
	tickFields = append([]string{"asset", "price", "volume", "time"}, ownFields...)
	ownFields  = []string{"source", "missed"}
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
	}
	if text, ok := e.Fields["volume"]; ok {
		if b.Volume, skipped = parseNumber(text); skipped != "" {
			return b, skipped
		}
	}
	if b.OpenTime, skipped = parseTime(e.Fields["open_time"]); skipped != "" {
		return b, skipped
	}
	if !validName(b.Asset) {
		return b, prices.SkipAsset
	}
	if skipped = checkBarPrices(&b.Bar); skipped != "" {
		return b, skipped
	}
	if _, known := prices.FrameOf(b.Timeframe); !known {
		return b, prices.SkipTimeframe
	}
	if b.OpenTime < earliestTime {
		return b, prices.SkipTime
	}
	return b, ""
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

// checkTick returns why a tick that a source or a writer had at now cannot be true, or an empty reason.
func checkTick(t *marketdata.Tick, now int64) prices.Reason {
	switch {
	case !validPrice(t.Price):
		return prices.SkipPrice
	case !validVolume(t.Volume):
		return prices.SkipVolume
	case t.Time < earliestTime || t.Time > now+futureMS:
		return prices.SkipTime
	}
	return ""
}

// checkBarPrices is checkTick for the prices and the volume of a bar.
func checkBarPrices(b *marketdata.Bar) prices.Reason {
	for _, p := range [...]float64{b.Open, b.High, b.Low, b.Close} {
		if !validPrice(p) {
			return prices.SkipPrice
		}
	}
	switch {
	case !validVolume(b.Volume):
		return prices.SkipVolume
	case b.High < max(b.Open, b.Close) || b.Low > min(b.Open, b.Close):
		return prices.SkipRange
	}
	return ""
}

// validPrice and validVolume are false for NaN, which is in no range.
func validPrice(v float64) bool  { return minPrice <= v && v <= maxPrice }
func validVolume(v float64) bool { return 0 <= v && v <= maxVolume }

func parseTime(text string) (int64, prices.Reason) {
	ms, err := strconv.ParseUint(text, 10, 63) // which accepts no sign
	if err != nil || len(text) > 15 {
		return 0, prices.SkipTime
	}
	return int64(ms), ""
}

// sanitize returns the bars that are closed, plausible and in order, and counts the others in metrics.
func sanitize(bars []marketdata.Bar, frame int, now int64, metrics *Metrics) []marketdata.Bar {
	kept := make([]marketdata.Bar, 0, len(bars))
	usual := usualPrice(bars)
	for i, b := range bars {
		if i == len(bars)-1 && b.CloseTime > now {
			break // still open
		}
		if r := checkBar(&b, frame, now); r != "" {
			metrics.Skip(r)
			continue
		}
		if n := len(kept); n > 0 && b.OpenTime <= kept[n-1].OpenTime {
			if b.OpenTime == kept[n-1].OpenTime {
				kept[n-1] = b // the later copy
			} else {
				metrics.Skip(prices.SkipOld)
			}
			continue
		}
		before := usual
		if n := len(kept); n > 0 {
			before = kept[n-1].Close
		}
		if frame < prices.D1 && !prices.Near(b.Close, before) {
			metrics.Skip(prices.SkipLevel)
			continue
		}
		kept = append(kept, b)
	}
	return kept
}

// usualPrice returns the median close of the first bars, so that a single bad one does not
// discredit all others.
func usualPrice(bars []marketdata.Bar) float64 {
	var closes []float64
	for _, b := range bars[:min(len(bars), 21)] {
		if validPrice(b.Close) {
			closes = append(closes, b.Close)
		}
	}
	if len(closes) == 0 {
		return 0
	}
	slices.Sort(closes)
	return closes[len(closes)/2]
}

// checkBar returns why a bar cannot be true, or an empty reason.
func checkBar(b *marketdata.Bar, frame int, now int64) prices.Reason {
	step := prices.FrameMS[frame]
	if skipped := checkBarPrices(b); skipped != "" {
		return skipped
	}
	switch {
	case b.OpenTime < 0 || b.OpenTime > now || b.OpenTime%step != 0,
		b.CloseTime != b.OpenTime+step || b.CloseTime > now+futureMS:
		return prices.SkipTime
	}
	return ""
}
