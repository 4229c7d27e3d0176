package binance

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// decodeKlines decodes bars: arrays of open time, four prices, volume and close time, with prices
// as strings. The exchange's close time is the last millisecond of a bar, ours the first after it.
func decodeKlines(body []byte) ([]marketdata.Bar, error) {
	var rows [][]json.RawMessage
	if err := json.Unmarshal(body, &rows); err != nil {
		return nil, fmt.Errorf("decode klines: %w", err)
	}
	if rows == nil {
		return nil, errors.New("decode klines: not a list")
	}
	bars := make([]marketdata.Bar, 0, len(rows))
	for i, row := range rows {
		if len(row) < 7 {
			return nil, fmt.Errorf("decode kline %d: %d values", i, len(row))
		}
		var b marketdata.Bar
		d := decoder{}
		b.OpenTime, b.CloseTime = d.time(row[0]), d.time(row[6])+1
		for j, p := range []*float64{&b.Open, &b.High, &b.Low, &b.Close, &b.Volume} {
			*p = d.number(row[1+j])
		}
		if d.err != nil {
			return nil, fmt.Errorf("decode kline %d: %w", i, d.err)
		}
		bars = append(bars, b)
	}
	return bars, nil
}

// decoder keeps the first error of several values.
type decoder struct{ err error }

// number decodes a decimal number in a string. null and a missing value are errors.
func (d *decoder) number(raw json.RawMessage) float64 {
	v, err := strconv.ParseFloat(d.text(raw), 64)
	if err != nil {
		d.fail(raw)
	}
	return v
}

func (d *decoder) time(raw json.RawMessage) int64 {
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		d.fail(raw)
	}
	return v
}

func (d *decoder) text(raw json.RawMessage) string {
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil || text == nil {
		d.fail(raw)
		return ""
	}
	return *text
}

func (d *decoder) fail(raw json.RawMessage) {
	if d.err == nil {
		d.err = fmt.Errorf("%.40q is not a value", raw)
	}
}

type message struct {
	kind   string // trade, kline, serverShutdown, or empty for the answer to a request
	symbol string // in upper case
	tick   marketdata.Tick
	bar    marketdata.Bar
	closed bool  // of bar
	id     int64 // of the request
	fault  string
}

// fields are the members of an object. Some names differ only in case, which struct tags ignore.
type fields map[string]json.RawMessage

// decodeMessage decodes a message. A message of another kind has only its kind.
func decodeMessage(data []byte) (message, error) {
	var outer fields
	if err := json.Unmarshal(data, &outer); err != nil {
		return message{}, fmt.Errorf("decode message: %w", err)
	}
	if id, ok := outer["id"]; ok {
		m := message{}
		m.id, _ = strconv.ParseInt(string(id), 10, 64)
		if e, ok := outer["error"]; ok {
			m.fault = string(e)
		}
		return m, nil
	}
	inner := outer
	if wrapped, ok := outer["data"]; ok {
		inner = nil
		if err := json.Unmarshal(wrapped, &inner); err != nil {
			return message{}, fmt.Errorf("decode message: %w", err)
		}
	}
	d := decoder{}
	m := message{kind: d.text(inner["e"])}
	switch m.kind {
	case "trade":
		m.symbol = d.text(inner["s"])
		m.tick = marketdata.Tick{Price: d.number(inner["p"]), Volume: d.number(inner["q"]), Time: d.time(inner["T"])}
	case "kline":
		var k fields
		if err := json.Unmarshal(inner["k"], &k); err != nil {
			return message{}, fmt.Errorf("decode kline: %w", err)
		}
		m.symbol = d.text(inner["s"])
		m.closed = string(k["x"]) == "true"
		m.bar = marketdata.Bar{
			OpenTime: d.time(k["t"]), CloseTime: d.time(k["T"]) + 1, Volume: d.number(k["v"]),
			Open: d.number(k["o"]), High: d.number(k["h"]), Low: d.number(k["l"]), Close: d.number(k["c"]),
		}
	}
	if d.err != nil {
		return message{}, fmt.Errorf("decode %s: %w", m.kind, d.err)
	}
	return m, nil
}
