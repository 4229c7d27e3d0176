package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// sample returns a record of n signals, its export and its keys.
func sample(tb testing.TB, n int) (*Sample, string, Keys) {
	tb.Helper()
	s, err := NewSample(nil)
	if err != nil {
		tb.Fatal(err)
	}
	s.Add(n)
	return s, written(tb, s), keysOf(tb, s)
}

func written(tb testing.TB, s *Sample) string {
	tb.Helper()
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func keysOf(tb testing.TB, s *Sample) Keys {
	tb.Helper()
	keys, err := ParseKeys(s.Keys.Public())
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

func TestAnExportIsVerified(t *testing.T) {
	t.Parallel()
	s, text, keys := sample(t, 60)
	var out strings.Builder
	r, err := Check(t.Context(), strings.NewReader(text), Reader{Keys: keys}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if r.Signals != 60 || r.Closed != 59 || r.Before != 0 || out.String() != "" ||
		r.Checkpoint.Origin != s.Keys.Name() ||
		!r.Last.Equal(s.Now) {
		t.Errorf("the record is %+v, with %s", r, out.String())
	}
	card, err := s.Scorecard(.05)
	if err != nil {
		t.Fatal(err)
	}
	s.Add(20) // later than the scorecard
	for _, text := range []string{text, written(t, s)} {
		if r, err = Check(t.Context(), strings.NewReader(text), Reader{Keys: keys}, &out); err != nil {
			t.Fatal(err)
		}
		c, err := r.Card(card)
		if err != nil || c.Count != 54 || c.Costs < .0499 || c.Costs > .0501 {
			t.Errorf("the scorecard: %+v, %v", c, err)
		}
	}
	if c := r; len(c.results) != 72 {
		t.Errorf("%d results", len(c.results))
	}
}

// TestRetentionLeavesARecordThatIsVerified although older signals are no longer there.
func TestRetentionLeavesARecordThatIsVerified(t *testing.T) {
	t.Parallel()
	s, _, keys := sample(t, 60)
	s.signals = s.signals[20:]
	r, err := Check(t.Context(), strings.NewReader(written(t, s)), Reader{Keys: keys}, &bytes.Buffer{})
	if err != nil || r.Before != 20 || r.Signals != 40 {
		t.Errorf("%+v, %v", r, err)
	}
}

// change returns an export with a line changed.
func change(tb testing.TB, text string, number int, f func(*line)) string {
	tb.Helper()
	lines := strings.SplitAfter(text, "\n")
	var l line
	if err := json.Unmarshal([]byte(lines[number-1]), &l); err != nil {
		tb.Fatal(err)
	}
	f(&l)
	b, err := json.Marshal(l)
	if err != nil {
		tb.Fatal(err)
	}
	lines[number-1] = string(b) + "\n"
	return strings.Join(lines, "")
}

// without returns an export without lines, and with the number of signals that are left.
func without(text string, drop func(n int) bool) string {
	var b strings.Builder
	signals, n := 0, 0
	for l := range strings.Lines(text) {
		switch n++; {
		case strings.HasPrefix(l, `{"end"`):
			fmt.Fprintf(&b, "{\"end\":{\"signals\":%d}}\n", signals)
		case !drop(n):
			b.WriteString(l)
			if n > 1 {
				signals++
			}
		}
	}
	return b.String()
}

func TestChangedExportsAreNamed(t *testing.T) {
	t.Parallel()
	s, text, keys := sample(t, 30)
	other, _, _ := sample(t, 30)
	forger, err := record.NewKey(s.Keys.Name())
	if err != nil {
		t.Fatal(err)
	}
	forged, err := record.ParseKeys(forger)
	if err != nil {
		t.Fatal(err)
	}
	impostor, err := NewSample(forged)
	if err != nil {
		t.Fatal(err)
	}
	impostor.Add(3)
	lines := strings.SplitAfter(text, "\n")
	s.Add(1)
	lines2 := strings.SplitAfter(written(t, s), "\n")
	cut := func(n int) string { return strings.Join(lines[:n], "") }
	shown := func(old, with string) func(*line) {
		return func(l *line) {
			if !strings.Contains(string(l.Signal), old) {
				t.Errorf("%s is not in %s", old, l.Signal)
			}
			l.Signal = []byte(strings.Replace(string(l.Signal), old, with, 1))
		}
	}
	for name, row := range map[string]struct {
		text, want string
		is         error
	}{
		"cut short":               {cut(12), "the last line of the export is missing, after 11 signals", verify.ErrIncomplete},
		"cut within a line":       {text[:len(cut(12))+99], "line 13: unexpected end", verify.ErrIncomplete},
		"cut within the end":      {text[:len(text)-4], "line 32: unexpected end", verify.ErrIncomplete},
		"empty":                   {"", "the export is empty", verify.ErrIncomplete},
		"without an end":          {cut(31), "missing, after 30 signals", verify.ErrIncomplete},
		"more after the end":      {text + lines[3], "more after the last line", verify.ErrIncomplete},
		"of another version":      {strings.Replace(text, `{"export":2,`, `{"export":3,`, 1), "version 2", errForm},
		"another file":            {`{"statistics":{}}` + "\n", "make one by agentsignal record export", errForm},
		"a line that is too long": {cut(2) + strings.Repeat("x", maxLine+1), "line 3 is longer than 4194304 bytes", errForm},
		"a line without a leaf":   {cut(2) + "{}\n", "line 3 has no signal with the leaf", verify.ErrIncomplete},
		"a signal twice": {strings.Replace(cut(4)+lines[3]+strings.Join(lines[4:], ""), `signals":30`, `signals":31`, 1),
			"two with one number", verify.ErrDiffers},
		"a signal left out": {without(text, func(n int) bool { return n == 9 }),
			"created number 8 of 30", verify.ErrMissing},
		"another number at the end": {strings.Replace(text, `signals":30`, `signals":29`, 1),
			"has 30 signals, and ends with the number 29", verify.ErrIncomplete},
		"a closing left out": {change(t, text, 9, func(l *line) { l.Closed = nil }),
			"closed number 8 of 29", verify.ErrMissing},
		"a source changed": {change(t, text, 9, shown(`"source":"stream"`, `"source":"binance"`)),
			"metadata.source is binance and was recorded as stream", verify.ErrDiffers},
		"words changed": {change(t, text, 9, shown("of a sample", "sure to win")),
			"the metadata is not what was recorded", verify.ErrDiffers},
		"a result changed": {change(t, text, 9, shown(`"r":-1`, `"r":9`)), "r is 9 and was recorded as -1", verify.ErrDiffers},
		"a line of an export of another time": {cut(2) + lines2[2] + strings.Join(lines[3:], ""),
			"the proof is for another checkpoint, with 61 leaves", verify.ErrNotIn},
		"a loss shown as a win": {change(t, text, 9, shown("stop_loss\"", "take_profit\"")),
			"close_reason is take_profit and was recorded as stop_loss", verify.ErrDiffers},
		"a confidence raised": {change(t, text, 9, shown(`"initial_confidence":0.4`, `"initial_confidence":0.4019`)),
			"initial_confidence is 0.4019", verify.ErrDiffers},
		"a leaf changed": {change(t, text, 9, func(l *line) {
			l.Closed.Text = strings.Replace(l.Closed.Text, "stop_loss", "take_profit", 1)
		}), "the leaf is not in the log", verify.ErrNotIn},
		"the leaf of another signal": {change(t, text, 9, func(l *line) { l.Closed, l.Created = l.Created, l.Closed }),
			"it is that of another entry, closed", verify.ErrDiffers},
		"of another instance": {written(t, other), "it is of another instance", verify.ErrNote},
		"of another key":      {written(t, impostor), "signed by another key of that name: forged", verify.ErrNote},
		"a changed checkpoint": {strings.Replace(text, `\n1\n`, `\n2\n`, 1),
			"the signature is forged, or the text was changed", verify.ErrNote},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			_, err := Check(t.Context(), strings.NewReader(row.text), Reader{Keys: keys}, &out)
			if err == nil || !errors.Is(err, row.is) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want %s\n%s", err, row.want, out.String())
			}
		})
	}
}

// TestTimesThatContradictTheOrder of the record are named.
func TestTimesThatContradictTheOrder(t *testing.T) {
	t.Parallel()
	back := func(s *Sample, by time.Duration) {
		s.Now = s.Now.Add(-by)
		s.Add(1)
		s.Now = s.Now.Add(2 * by)
	}
	for name, row := range map[string]struct {
		turn func(*Sample)
		want string
	}{
		"set back":           {func(s *Sample) { back(s, time.Hour) }, "a clock was set back"},
		"set back by little": {func(s *Sample) { back(s, maxBack) }, ""},
		"ahead of the signer": {func(s *Sample) {
			s.Now = s.Now.Add(time.Hour)
			s.Add(1)
			s.Now = s.Now.Add(-2 * time.Hour)
		}, "after the checkpoint that has it"},
	} {
		s, _, keys := sample(t, 5)
		row.turn(s)
		var out strings.Builder
		_, err := Check(t.Context(), strings.NewReader(written(t, s)), Reader{Keys: keys}, &out)
		if (row.want == "") != (err == nil) || !strings.Contains(out.String(), row.want) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// TestLosersThatAreShownAsOpen are named once they have expired, even if no later entry counts them.
func TestLosersThatAreShownAsOpen(t *testing.T) {
	t.Parallel()
	s, _, keys := sample(t, 20)
	s.Now = s.Now.Add(25*time.Hour + time.Minute)
	var out strings.Builder
	_, err := Check(t.Context(), strings.NewReader(written(t, s)), Reader{Keys: keys}, &out)
	if !errors.Is(err, verify.ErrMissing) || !strings.Contains(out.String(), "line 21") ||
		!strings.Contains(out.String(), "its closing, since it expired at 2026-11-01T10:49:00Z") {
		t.Errorf("%v\n%s", err, out.String())
	}
	s.Now = s.Now.Add(-2 * time.Hour)
	if _, err := Check(t.Context(), strings.NewReader(written(t, s)), Reader{Keys: keys}, &out); err != nil {
		t.Errorf("within a day: %v", err)
	}
}

func TestManyFindingsAreCounted(t *testing.T) {
	t.Parallel()
	_, text, keys := sample(t, 30)
	for n := 2; n <= 31; n++ {
		text = change(t, text, n, func(l *line) {
			l.Signal = []byte(
				strings.Replace(string(l.Signal), `"initial_confidence":0.4`, `"initial_confidence":0.6`, 1),
			)
		})
	}
	var out strings.Builder
	_, err := Check(t.Context(), strings.NewReader(text), Reader{Keys: keys}, &out)
	if err == nil || !strings.Contains(err.Error(), "30 of 30 signals do not verify") ||
		strings.Count(out.String(), "\n") != maxShown {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestScorecardsOfOtherRecords(t *testing.T) {
	t.Parallel()
	s, _, keys := sample(t, 30)
	for range 30 { // from now on a checkpoint has each creation before its end
		s.Signed = int64(len(s.leaves))
		s.Add(1)
	}
	text := written(t, s)
	r, err := Check(t.Context(), strings.NewReader(text), Reader{Keys: keys}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	card, err := s.Scorecard(0)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := r.Card(card); err != nil || c.Recorded != 54 || c.Committed != 27 {
		t.Fatalf("the scorecard: %+v, %v", c, err)
	}
	// As it was while the last closing had no leaf.
	last := r.results[len(r.results)-1].group
	before := func(missing int) []byte {
		var all map[string]any
		if err := json.Unmarshal(card, &all); err != nil {
			t.Fatal(err)
		}
		list := []map[string]any{all}
		for _, g := range all["groups"].([]any) {
			if g := g.(map[string]any); g["asset"] == last.Asset {
				list = append(list, g)
			}
		}
		for _, m := range list {
			m["recorded"] = m["recorded"].(float64) - 1
			m["committed"] = m["committed"].(float64) - float64(missing)
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if c, err := r.Card(before(1)); err != nil || c.Recorded != 53 || c.Committed != 26 {
		t.Errorf("the scorecard before the last leaf: %+v, %v", c, err)
	}
	more, _, _ := sample(t, 80)
	longer, err := more.Scorecard(0)
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(old, with string) []byte {
		if !strings.Contains(string(card), old) {
			t.Errorf("%s is not in %s", old, card)
		}
		return []byte(strings.Replace(string(card), old, with, 1))
	}
	for name, row := range map[string]struct {
		text []byte
		want string
	}{
		"more signals":      {longer, "it has 72 closed signals with prices and the record 54, which ends with a"},
		"more wins":         {replaced(`"wins":15`, `"wins":16`), ""},
		"a better mean":     {replaced(`"mean_r":-`, `"mean_r":`), "mean_r of "},
		"another need":      {replaced(`"break_even":`, `"break_even":1`), "break_even of "},
		"more committed":    {replaced(`"committed":27,`, `"committed":28,`), "committed of all signals is 28 of 54, and"},
		"more in a group":   {replaced(`"recorded":18,"committed":9`, `"recorded":18,"committed":10`), "momentum"},
		"more recorded":     {replaced(`"recorded":54`, `"recorded":55`), "is 27 of 55, and 27 of 54 of what was recorded"},
		"fewer recorded":    {before(0), "is 27 of 53, and 26 of 53"},
		"no groups":         {replaced(`"groups":[`, `"groups":[],"other":[`), "no row in the scorecard"},
		"no count":          {replaced(`"count":`, `"counts":`), ""},
		"not JSON":          {card[:30], "it is not a scorecard"},
		"another file":      {[]byte(`{"signals":[]}`), "it is not a scorecard"},
		"a negative count":  {[]byte(`{"statistics":{"count":-1}}`), "it is not a scorecard"},
		"a member left out": {[]byte(`{"statistics":{"count":0},"groups":[]}`), "is <nil>"},
	} {
		if c, err := r.Card(row.text); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %+v, %v, want %s", name, c, err, row.want)
		}
	}
}

// A scorecard leaves out small groups if there are too many, and no others.
// TestSkillsOfOtherRecords: what a scorecard shows of strategies of the account's agents is computed from the record alone.
func TestSkillsOfOtherRecords(t *testing.T) {
	t.Parallel()
	s, _, keys := sample(t, 0)
	s.Own = true
	s.Add(300)
	text := written(t, s)
	check := func(text string) (*Record, error) {
		return Check(t.Context(), strings.NewReader(text), Reader{Keys: keys}, &bytes.Buffer{})
	}
	r, err := check(text)
	if err != nil {
		t.Fatal(err)
	}
	card, err := s.Scorecard(.05)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Card(card); err != nil {
		t.Fatal(err)
	}
	rows := func(change func(row map[string]any) map[string]any) []byte {
		var all map[string]any
		if err := json.Unmarshal(card, &all); err != nil {
			t.Fatal(err)
		}
		list := all["strategies"].([]any)
		if len(list) != 1 {
			t.Fatalf("%d strategies", len(list))
		}
		if all["strategies"] = []any{}; change != nil {
			all["strategies"] = []any{change(list[0].(map[string]any))}
		}
		changed, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	plus := func(m map[string]any, name string, more float64) {
		v, ok := m[name].(float64)
		if !ok {
			t.Errorf("%s is %v", name, m[name])
		}
		m[name] = v + more
	}
	changed := func(name string, more float64) []byte {
		return rows(func(row map[string]any) map[string]any {
			plus(row, name, more)
			return row
		})
	}
	claimed := func(change func(claimed map[string]any)) []byte {
		return rows(func(row map[string]any) map[string]any {
			change(row["claimed"].(map[string]any))
			return row
		})
	}
	for name, row := range map[string]struct {
		text []byte
		want string
	}{
		"a better skill":     {changed("skill", 0.0002), "skill of my_agent cross is"},
		"a larger sample":    {changed("skill_sample", 1), "skill_sample of my_agent cross is"},
		"a better score":     {changed("brier_score", -0.001), "brier_score of my_agent cross is"},
		"a lower break-even": {changed("break_even", -0.01), "break_even of my_agent cross is"},
		"a better mean":      {changed("mean_r", 0.01), "mean_r of my_agent cross is"},
		"a narrower interval": {rows(func(m map[string]any) map[string]any {
			plus(m["skill_interval"].(map[string]any), "low", 0.01)
			return m
		}), "skill_interval of my_agent cross is"},
		"better claims": {claimed(func(m map[string]any) { plus(m, "brier_score", -0.001) }), "claimed of my_agent cross is"},
		"a better range of claims": {claimed(func(m map[string]any) {
			plus(m["reliability"].([]any)[4].(map[string]any), "mean_outcome", 0.01)
		}), "claimed of my_agent cross is"},
		"a row left out": {rows(nil), "no row among the strategies"},
		"another name": {rows(func(m map[string]any) map[string]any {
			m["strategy"] = "other"
			return m
		}), "it has a row of my_agent other"},
	} {
		if _, err := r.Card(row.text); !errors.Is(err, errScorecard) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %s", name, err, row.want)
		}
	}
	if _, err := r.Card(changed("break_even_net", -0.01)); err != nil {
		t.Errorf("after other costs: %v", err)
	}
	// What the skill rests on cannot be changed either.
	for old, with := range map[string]string{`"base_probability":0.4`: `"base_probability":0.3`,
		`"life_left":0.5`:          `"life_left":0.9`,
		`"claimed_confidence":0.5`: `"claimed_confidence":0.1`} {
		if _, err := check(strings.Replace(text, old, with, 1)); !errors.Is(err, verify.ErrDiffers) {
			t.Errorf("with %s: %v", with, err)
		}
	}
}

func TestScorecardsLeaveOutTheSmallestGroups(t *testing.T) {
	t.Parallel()
	type row struct {
		group
		Statistics backtest.Statistics `json:"statistics"`
	}
	var r Record
	var rows []row
	var all []backtest.Outcome
	for i := range backtest.MaxGroups + 2 {
		g := group{Agent: "trading", Strategy: fmt.Sprint("strategy_", i), Asset: "BTC"}
		var of []backtest.Outcome
		for range 1 + min(i, 1) { // the first group has one signal, the others two
			o := backtest.Outcome{At: int64(i), R: 1, Confidence: .5, Reason: signal.TakeProfit}
			of = append(of, o)
			r.results = append(r.results, result{Outcome: o, group: g, number: int64(len(r.results))})
		}
		all = append(all, of...)
		rows = append(rows, row{g, backtest.Summarize(of)})
	}
	for name, c := range map[string]struct {
		rows  []row
		fails bool
	}{
		"without the smallest and one of the others": {rows[2:], false},
		"without two of the others":                  {rows[:len(rows)-2], true},
		"with few rows":                              {rows[3:], true},
	} {
		text, err := json.Marshal(map[string]any{"statistics": backtest.Summarize(all), "groups": c.rows})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Card(text); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
