package strategy

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// measure names what a confidence is. That of a text is another one: see package content.
const measure = "probability"

// Metadata returns the JSON object of a signal's metadata. The members of extra (source,
// time_compression, ...) are added and replace others of the same name. cost is that of
// entry and exit together in R. A value that JSON cannot express becomes null.
func (a *Assessment) Metadata(asset string, l signal.Levels, cost float64, extra map[string]any) json.RawMessage {
	o := object{buf: make([]byte, 0, 1024), skip: extra}
	o.strings("indicators", a.Indicators)
	o.value("reasoning", func() any { return a.Reasoning(asset, l, cost) })
	o.value("values", func() any { return a.Values })
	o.number("strength", a.Strength)
	o.number("break_even", a.BreakEven(0))
	o.number("break_even_net", a.BreakEven(cost))
	o.number("expected_r", a.ExpectedR(0))
	o.number("expected_r_net", a.ExpectedR(cost))
	o.number("edge", a.Edge(cost))
	low, high := a.Interval()
	o.value("confidence_interval", func() any { return [2]float64{low, high} })
	o.number("sample", a.Sample)
	o.number("comparable_share", a.Share)
	o.strings("measure", measure)
	if a.Calibration != "" {
		o.strings("calibration", a.Calibration)
	}
	if a.Headlines != nil {
		o.strings("headlines", a.Headlines)
	}
	o.skip = nil
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		o.value(name, func() any { return extra[name] })
	}
	return o.bytes()
}

// object writes the members of a JSON object in the order given.
type object struct {
	buf  []byte
	skip map[string]any // members that are written from elsewhere
}

// begin writes the member's name. It returns false if the member is to be skipped.
func (o *object) begin(name string) bool {
	if _, skip := o.skip[name]; skip {
		return false
	}
	if len(o.buf) == 0 {
		o.buf = append(o.buf, '{')
	} else {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(signal.AppendText(o.buf, name), ':')
	return true
}

// value writes a member of any type.
func (o *object) value(name string, v func() any) {
	if o.begin(name) {
		o.buf = append(o.buf, encoded(v())...)
	}
}

// strings writes a string or a list of them.
func (o *object) strings(name string, v any) { o.value(name, func() any { return v }) }

// number writes a number, or null if it is not finite.
func (o *object) number(name string, x float64) {
	if !o.begin(name) {
		return
	}
	if !finite(x) {
		o.buf = append(o.buf, "null"...)
		return
	}
	o.buf = strconv.AppendFloat(o.buf, x, 'f', -1, 64)
}

// bytes ends the object.
func (o *object) bytes() []byte { return append(o.buf, '}') }

// encoded returns v as JSON, or null if JSON cannot express it.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return b
}
