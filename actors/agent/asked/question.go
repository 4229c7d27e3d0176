package asked

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// sentBars is how many of the newest closed bars a question has.
const sentBars = 300

// barSize is about the size of a bar in a question, in bytes.
const barSize = 128

// parameters are signal.Parameters in JSON.
type parameters struct {
	Region   string   `json:"region,omitempty"`
	Keywords []string `json:"keywords,omitempty"`
	Features []string `json:"features,omitempty"`
	Locale   string   `json:"locale,omitempty"`
}

// maxTexts is how many texts of bars are kept, of about 30 KiB each. Beyond it all are forgotten.
const maxTexts = 256

// barTexts keeps the bars of questions as JSON while they are the newest of their series, since writing them is most of the work
// of a question. It is safe for concurrent use.
type barTexts struct {
	mu    sync.Mutex
	texts map[series]barText
}

// series names bars.
type series struct {
	asset     string
	timeframe signal.Timeframe
}

// barText is how the bars up to newest are written. Nobody changes bars of a snapshot, so those at the same place are equal.
type barText struct {
	newest *marketdata.Bar
	bars   int
	text   []byte
}

// of returns bars, the newest of a series, separated by commas.
func (t *barTexts) of(s series, bars []marketdata.Bar) []byte {
	if len(bars) == 0 {
		return nil
	}
	newest := &bars[len(bars)-1]
	t.mu.Lock()
	kept := t.texts[s]
	t.mu.Unlock()
	if kept.newest == newest && kept.bars == len(bars) {
		return kept.text
	}
	text := appendBars(make([]byte, 0, len(bars)*barSize), bars)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.texts == nil || len(t.texts) >= maxTexts {
		t.texts = map[series]barText{}
	}
	t.texts[s] = barText{newest, len(bars), text}
	return text
}

// questions hold bodies of questions while they are sent.
var questions = sync.Pool{New: func() any { return new([]byte) }}

// appendQuestion adds the body of a question. A bar has the members of GET /v1/assets/{asset}/bars.
func appendQuestion(b []byte, run signal.RunID, q *signal.RunRequest, seen *market.Snapshot, texts *barTexts) []byte {
	b = append(b, `{"run_id":`...)
	b = signal.AppendText(b, string(run))
	for _, m := range [...]struct{ name, value string }{
		{"agent_id", string(q.Agent)}, {"asset", q.Asset}, {"strategy", q.Strategy},
		{"timeframe", string(q.Timeframe)}, {"risk_level", string(q.Risk)},
	} {
		b = append(b, `,"`...)
		b = append(b, m.name...)
		b = append(b, `":`...)
		b = signal.AppendText(b, m.value)
	}
	given, err := json.Marshal(parameters(q.Parameters))
	if err != nil {
		panic("write strings as JSON: " + err.Error())
	}
	b = append(append(b, `,"parameters":`...), given...)
	if seen == nil {
		return append(b, `,"price":null,"bars":[]}`...)
	}
	bars := seen.Bars[max(0, len(seen.Bars)-sentBars):]
	b = signal.AppendPrice(append(b, `,"price":`...), seen.Last.Price)
	b = append(b, `,"bars":[`...)
	b = append(b, texts.of(series{q.Asset, q.Timeframe}, bars)...)
	return append(b, "]}"...)
}

func appendBars(b []byte, bars []marketdata.Bar) []byte {
	for i := range bars {
		if i > 0 {
			b = append(b, ',')
		}
		bar := &bars[i]
		b = signal.AppendTime(append(b, `{"open_time":`...), time.UnixMilli(bar.OpenTime))
		b = signal.AppendPrice(append(b, `,"open":`...), bar.Open)
		b = signal.AppendPrice(append(b, `,"high":`...), bar.High)
		b = signal.AppendPrice(append(b, `,"low":`...), bar.Low)
		b = signal.AppendPrice(append(b, `,"close":`...), bar.Close)
		b = signal.AppendPrice(append(b, `,"volume":`...), bar.Volume)
		b = append(b, '}')
	}
	return b
}

// maxReason is the maximum number of characters of a reason.
const maxReason = 500

// readNull checks that body is a JSON object. null reports whether its signal is null:
// {"signal": null, "reason": "…"}, of which the reason may be absent or null.
func readNull(body []byte) (reason string, null bool, err error) {
	if fault := jsonobject.Check(body); fault != nil {
		return "", false, fault
	}
	if body = jsonobject.Trim(body); body[0] != '{' {
		return "", false, errors.New("it is not a JSON object")
	}
	members := map[string]string{}
	for name, value := range jsonobject.Members(body) {
		if _, twice := members[string(name)]; twice {
			return "", false, fmt.Errorf("it has a member twice: %.40q", name)
		}
		members[string(name)] = string(value)
	}
	given, null := members["signal"]
	if !null {
		return "", false, nil
	}
	if given != "null" {
		return "", false, errors.New("signal must be null: a submission has its members beside each other, without it")
	}
	text, ok := members["reason"]
	if ok {
		delete(members, "reason")
	}
	if len(members) > 1 {
		return "", false, errors.New("beside signal, which is null, there may only be a reason")
	}
	if !ok || text == "null" {
		return "", true, nil
	}
	if text[0] != '"' {
		return "", false, errors.New("reason must be a string")
	}
	reason = string(jsonobject.Text([]byte(text)))
	if utf8.RuneCountInString(reason) > maxReason {
		return "", false, fmt.Errorf("reason must have at most %d characters", maxReason)
	}
	for _, r := range reason {
		if unicode.IsControl(r) {
			return "", false, errors.New("reason must have no control characters")
		}
	}
	return reason, true, nil
}
