package market

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// reason says why an entry was skipped; empty if it was not. It is the label of a
// metric.
type reason string

// The reasons.
const (
	skipFields    reason = "fields"    // a field is missing or unknown
	skipAsset     reason = "asset"     // the name is empty, too long or has control characters
	skipNumber    reason = "number"    // not a plain decimal number
	skipPrice     reason = "price"     // not positive, or absurd
	skipVolume    reason = "volume"    // negative or absurd
	skipRange     reason = "range"     // high or low contradict the other prices
	skipTimeframe reason = "timeframe" // unknown
	skipTime      reason = "time"      // before 2001, in the future, not aligned, or not closed yet
	skipOld       reason = "old"       // older than the newest tick
	skipJump      reason = "jump"      // far from the last price, and not confirmed
	skipLate      reason = "late"      // its minute was closed before it came
	skipSource    reason = "source"    // another source gives the asset's prices
	skipAssets    reason = "assets"    // one asset more than there may be
	skipLevel     reason = "level"     // so far from the price before that it is of something else
	skipForged    reason = "forged"    // it has fields that only the feeder's own ticks have
)

// skipReasons lists them for the metric.
var skipReasons = []reason{skipFields, skipAsset, skipNumber, skipPrice, skipVolume, skipRange, skipTimeframe, skipTime,
	skipOld, skipJump, skipLate, skipSource, skipAssets, skipLevel, skipForged}

const (
	maxAssetLength = 64 // characters
	maxNumberBytes = 48
	minPrice       = 1e-9
	maxPrice       = 1e12
	maxVolume      = 1e18
	// earliestTime is in 2001: milliseconds since 1970 have 13 digits since then, and
	// what has fewer is in seconds.
	earliestTime = 1_000_000_000_000
	// futureMS is how far the clocks of those who write may be ahead.
	futureMS = 5_000
)

// parseTick reads an entry of a stream of ticks. Asset is the name as it stands. Source
// is that of a tick of our own, which carries it in a field, and streamName for what
// somebody gave: who may write to market:ticks must not pass for a source.
func parseTick(stream marketdata.TickStream, e *marketdata.Entry) (t marketdata.AssetTick, skipped reason) {
	known := 0
	for _, field := range [...]string{"asset", "price", "volume", "time", "source", "missed"} {
		if _, ok := e.Fields[field]; ok {
			known++
		}
	}
	_, named := e.Fields["source"]
	_, missed := e.Fields["missed"]
	switch {
	case known != len(e.Fields), stream == marketdata.OwnTicks && !named:
		return t, skipFields
	case stream == marketdata.GivenTicks && (named || missed):
		return t, skipForged
	}
	t.Source, t.Time = streamName, e.Position.MS
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
			return t, skipTime
		}
	}
	if source, ok := e.Fields["source"]; ok {
		if source == streamName || !slices.Contains(sourceNames, source) {
			return t, skipFields
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

// barFields are the fields of an entry of market:bars; volume may be missing.
var barFields = [...]string{"asset", "timeframe", "open_time", "open", "high", "low", "close", "volume"}

// parseBar reads an entry of market:bars; Asset holds the name as it stands. The
// bar is checked by itself: whether it is aligned and closed depends on the
// asset's time, see checkBarTime.
func parseBar(e *marketdata.Entry) (b marketdata.AssetBar, skipped reason) {
	known := 0
	for _, field := range barFields {
		if _, ok := e.Fields[field]; ok {
			known++
		} else if field != "volume" {
			return b, skipFields
		}
	}
	if known != len(e.Fields) {
		return b, skipFields
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
		return b, skipRange
	}
	if _, ok := frameOf(b.Timeframe); !ok {
		return b, skipTimeframe
	}
	b.OpenTime, skipped = parseTime(e.Fields["open_time"])
	return b, skipped
}

// checkBarTime says whether b is a bar of g that was closed when its entry was
// written at ms, and completes its CloseTime.
func checkBarTime(b *marketdata.AssetBar, g grid, ms int64) reason {
	frame, ok := frameOf(b.Timeframe)
	if !ok {
		return skipTimeframe
	}
	// Far in the future the calendar would overflow.
	if b.OpenTime > ms || !g.aligned(frame, b.OpenTime) {
		return skipTime
	}
	if _, b.CloseTime = g.interval(frame, b.OpenTime); b.CloseTime > ms+futureMS {
		return skipTime
	}
	return ""
}

func nameAndNumber(fields map[string]string, number string) (string, float64, reason) {
	name, ok := fields["asset"]
	text, ok2 := fields[number]
	if !ok || !ok2 {
		return "", 0, skipFields
	}
	if !validName(name) {
		return "", 0, skipAsset
	}
	value, skipped := parseNumber(text)
	return name, value, skipped
}

// validName says that name can be an asset's: 1 to 64 characters without control
// characters or spaces at its ends.
func validName(name string) bool {
	if name == "" || len(name) > 4*maxAssetLength || !utf8.ValidString(name) ||
		utf8.RuneCountInString(name) > maxAssetLength || strings.TrimSpace(name) != name {
		return false
	}
	for _, r := range name {
		if r < ' ' || 0x7f <= r && r < 0xa0 {
			return false
		}
	}
	return true
}

// parseNumber reads a plain decimal number. strconv alone would also take NaN,
// Inf and hexadecimals.
func parseNumber(text string) (float64, reason) {
	if text == "" || len(text) > maxNumberBytes {
		return 0, skipNumber
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, skipNumber
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, skipNumber
	}
	return v, ""
}

func checkPrice(v float64) reason {
	if v < minPrice || v > maxPrice {
		return skipPrice
	}
	return ""
}

func parseVolume(text string) (float64, reason) {
	v, skipped := parseNumber(text)
	if skipped != "" {
		return 0, skipped
	}
	if v < 0 || v > maxVolume {
		return 0, skipVolume
	}
	return v, ""
}

// parseTime reads milliseconds since 1970.
func parseTime(text string) (int64, reason) {
	if text == "" || len(text) > 15 {
		return 0, skipTime
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, skipTime
		}
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < earliestTime {
		return 0, skipTime
	}
	return ms, ""
}
