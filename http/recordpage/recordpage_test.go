package recordpage

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"
	parser "golang.org/x/net/html"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/publicrecord"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

var (
	morning = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	public  = credential.Publication{Account: "acc_1", Slug: "slug", Title: "Title", Enabled: true, ShowOpen: true}
	by      = &Renderer{Keys: []string{"name+1a2b3c4d+AAAA+BBB"}, Script: "/dashboard/public-x.js"}
)

// texts are those of an account.
type texts struct{ title, name, asset, strategy, reasoning, source string }

var plainTexts = texts{"Title", "Agent", "BTC", "momentum", "reasoning", "binance"}

// largest returns a record with as much on its page as there may be: 10,000 closed signals of as many agents as are shown.
func largest(of texts) *publicrecord.Record {
	random := rand.New(rand.NewPCG(1, 2))
	checkpoint := &record.Signed{Checkpoint: &verify.Checkpoint{Origin: "name", Root: tlog.Tree{N: 1},
		Heads: verify.Heads{At: morning}},
		Entry: verify.Entry{Text: "heads\n"}}
	leaf := func() *verify.Leaf {
		return &verify.Leaf{Log: 3, Index: random.Int64N(30000), Size: 30000, Text: `{"v":2}`, Salt: []byte("salt"),
			Proof: make(tlog.RecordProof, 15)}
	}
	r := &publicrecord.Record{Account: "acc_01M7YQ1WE0AE67Z5NHCJZHQ5XV", Checkpoint: checkpoint,
		Note:   []byte("name\n1\n\n— name AAAA\n"),
		Newest: leaf(), Totals: record.Counts{Created: 12_345, Closed: 12_300}, Since: morning.AddDate(0, 0, -90),
		Created: 10_045,
		Kept:    10_000, Committed: 9_000, Others: 30, Sources: []string{of.source}}
	var all, each backtest.Tally
	sum := scorecard.Point{}
	for i := range 10_000 {
		o := backtest.Outcome{At: morning.UnixMilli(), R: random.NormFloat64(), Cost: .1 * random.Float64(), Target: 1.5,
			Confidence: random.Float64(), Reason: signal.StopLoss}
		all.Add(&o)
		if each.Add(&o); i%500 == 499 {
			r.Agents = append(r.Agents, publicrecord.Agent{ID: signal.AgentID(fmt.Sprintf("agent_%d", i)), Name: of.name,
				Removed: i%1000 == 499,
				Count:   catalogue.Count{Open: i % 7, Closed: 500}, Statistics: each.Statistics()})
			each = backtest.Tally{}
		}
		sum = scorecard.Point{At: morning.Add(time.Duration(i) * time.Minute), R: sum.R + o.R, RNet: sum.RNet + o.R - o.Cost}
		if i%63 == 0 && len(r.Curve) < scorecard.MaxPoints {
			r.Curve = append(r.Curve, sum)
		}
	}
	for i := range 60 {
		m := publicrecord.Month{Month: &verify.Month{Account: string(r.Account), Month: morning.AddDate(0, i-61, 0).Format("2006-01")},
			Leaf: leaf()}
		for j := range 50 {
			m.Agents = append(m.Agents, verify.AgentSum{Agent: fmt.Sprintf("agent_%d", j), Closed: 200, Priced: 180,
				Won: random.Int64N(180), Gains: 100 * random.Float64(), Losses: 100 * random.Float64(), Costs: 9, Targets: 270})
		}
		r.Months = append(r.Months, m)
	}
	r.All = all.Statistics()
	r.Rest = &publicrecord.Agent{Count: catalogue.Count{Open: 3, Closed: 4}, Statistics: each.Statistics()}
	for i := range 2 * publicrecord.MaxSignals {
		price := func() float64 { return 60_000 + math.Round(random.NormFloat64()*1e6)/1e3 }
		s := publicrecord.Signal{CreatedLeaf: leaf(), ClosedLeaf: leaf(), Reasoning: of.reasoning, Signal: &signal.Signal{
			ID: signal.NewSignalID(), Agent: "agent_1", Asset: of.asset, Strategy: of.strategy, Timeframe: signal.H1,
			Direction:       signal.Long,
			FirstConfidence: random.Float64(), Levels: &signal.Levels{Entry: price(), Stop: price(), Target: price()},
			CreatedAt: morning.Add(-time.Duration(random.IntN(9000)) * time.Minute)}}
		if i < publicrecord.MaxSignals {
			s.ClosedLeaf = nil
			r.Open = append(r.Open, s)
			continue
		}
		s.R, s.RNet = new(random.NormFloat64()), new(random.NormFloat64())
		s.Closing = &signal.Closing{Reason: signal.TakeProfit, At: morning, ExitPrice: new(price())}
		r.Closed = append(r.Closed, s)
	}
	return r
}

func render(t *testing.T, r *publicrecord.Record, p credential.Publication) *Files {
	t.Helper()
	f, err := by.Render(r, p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The first paint needs the page alone.
func TestLargestPageIsSmall(t *testing.T) {
	t.Parallel()
	f := render(t, largest(plainTexts), public)
	t.Logf("the page has %d bytes in gzip", len(f.Page.Gzipped))
	if n := len(f.Page.Gzipped); n >= 15_000 {
		t.Errorf("the page has %d bytes in gzip, and %d without", n, len(f.Page.Text))
	}
	for _, want := range []string{"12,300", "10,000", "2,300", "of 12,345 created",
		"Several accounts of one operator cannot be seen from here.",
		"The service alone signs its record.", "no other service ran whose results were kept back", "30 others", "(removed)",
		"2025-10", "36 earlier", "360,000"} {
		if !bytes.Contains(f.Page.Text, []byte(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, is := range []string{"http:", "https:", "url(", "@import", "style="} {
		if page := strings.Replace(string(f.Page.Text), "https://HOST", "", 1); strings.Contains(page, is) {
			t.Errorf("the page has %q: it needs another file, or a style that its policy refuses", is)
		}
	}
	if !bytes.Contains([]byte(Policy), []byte(styleHash("page.html"))) || strings.Contains(Policy, "unsafe") {
		t.Errorf("policy %s", Policy)
	}
}

func TestMonthsOnThePage(t *testing.T) {
	t.Parallel()
	r := &publicrecord.Record{Months: []publicrecord.Month{
		{Month: &verify.Month{Month: "2026-08", Agents: []verify.AgentSum{
			{Agent: "a", Closed: 50, Priced: 40, Won: 20, Gains: 30, Losses: 20, Costs: 4, Targets: 60}}}},
		{Month: &verify.Month{Month: "2026-10", Agents: []verify.AgentSum{
			{Agent: "a", Closed: 1, Priced: 1, Losses: 1, Costs: .5, Targets: 2}, {Agent: "b", Closed: 2}}}}}}
	months, agents := viewMonths(r)
	want := []sumView{{"2026-10", "3", "0 of 1", "33.3 %", "50.0 %", "−1.0", "−1.5"},
		{"2026-08", "50", "50.0 %", "40.0 %", "44.0 %", "+10.0", "+6.0"}}
	if d := cmp.Diff(want, months); d != "" {
		t.Errorf("months (-want +got):\n%s", d)
	}
	want = []sumView{{"a", "51", "48.8 %", "40.0 %", "44.4 %", "+9.0", "+4.5"}, {"b", "2", "–", "–", "–", "0.0", "0.0"}}
	if d := cmp.Diff(want, agents); d != "" {
		t.Errorf("agents (-want +got):\n%s", d)
	}
}

// structure returns the elements of a page with the names of their attributes, and its text.
func structure(t *testing.T, page []byte) (elements []string, text string) {
	t.Helper()
	z := parser.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case parser.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) {
				t.Fatal(z.Err())
			}
			return elements, text
		case parser.TextToken:
			text += string(z.Text())
		case parser.CommentToken:
			elements = append(elements, "comment")
		default:
			tag := z.Token()
			name := tag.Type.String() + " " + tag.Data
			for _, a := range tag.Attr {
				name += " " + a.Key
			}
			elements = append(elements, name)
		}
	}
}

// What an account has written changes no element of any file.
func TestTextsOfAccountsAreEscaped(t *testing.T) {
	t.Parallel()
	hostile := "\x00\x1b</td></code></title></style><script>alert(1)</script>" +
		"<img src=x onerror='a'>\"'&amp;{{.Keys}}<!-- ]]>\u2028\ufffe"
	of := texts{hostile + "1", hostile + "2", hostile + "3", hostile + "4", hostile + "5", hostile + "6"}
	p := public
	p.Title = of.title
	plain, f := render(t, largest(plainTexts), public), render(t, largest(of), p)
	want, _ := structure(t, plain.Page.Text)
	got, text := structure(t, f.Page.Text)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("elements of the page (-plain texts +hostile):\n%s", d)
	}
	for i, shown := range []string{of.title, of.name, of.asset, of.source} {
		if !strings.Contains(text, strings.Map(allowed, shown)) {
			t.Errorf("text %d is not on the page as it is", i)
		}
	}
	for name, file := range map[string]*File{"feed": f.Feed, "badge": f.Badge} {
		elements, text := map[string]int{}, ""
		for d := xml.NewDecoder(bytes.NewReader(file.Text)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch x := token.(type) {
			case xml.StartElement:
				elements[x.Name.Local]++
			case xml.CharData:
				text += string(x)
			}
		}
		if elements["script"]+elements["img"] > 0 {
			t.Errorf("%s has %v", name, elements)
		}
		if name == "feed" && (elements["entry"] != publicrecord.MaxSignals ||
			!strings.Contains(text, strings.Map(allowed, of.reasoning)) || !strings.Contains(text, strings.Map(allowed,
			of.strategy))) {
			t.Errorf("the feed has %v and not each text", elements)
		}
	}
	var v struct {
		Title  string `json:"title"`
		Agents []struct{ Name string }
		Closed []struct {
			Reasoning string
			Signal    struct{ Asset, Strategy string }
		} `json:"closed_signals"`
	}
	if err := json.Unmarshal(f.JSON.Text, &v); err != nil || v.Title != of.title || v.Agents[0].Name != of.name ||
		v.Closed[0].Reasoning != of.reasoning || v.Closed[0].Signal.Asset != of.asset ||
		v.Closed[0].Signal.Strategy != of.strategy {
		t.Errorf("JSON: %v, %.300s", err, f.JSON.Text)
	}
}

// FuzzEscape checks that no text ends the one that it stands in.
func FuzzEscape(f *testing.F) {
	f.Add("</p><script>", "x\x00y\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		text := "<x y=\"" + escape(a) + "\">" + escape(b) + "</x>"
		var v struct {
			Y    string `xml:"y,attr"`
			Text string `xml:",chardata"`
		}
		if err := xml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		elements, _ := structure(t, []byte(text))
		if d := cmp.Diff([]string{"StartTag x y", "EndTag x"}, elements); d != "" {
			t.Errorf("%q:\n%s", text, d)
		}
	})
}

func TestRecordWithoutSignals(t *testing.T) {
	t.Parallel()
	p := public
	p.ShowOpen = false
	empty := &publicrecord.Record{Account: "acc_1", Since: morning, All: backtest.Summarize(nil)}
	f := render(t, empty, p)
	for _, want := range []string{"The service has signed no checkpoint yet", "No signal has closed yet",
		"by the word of the service"} {
		if !bytes.Contains(f.Page.Text, []byte(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"<svg", "Open signals", "NaN", "null", "curl"} {
		if bytes.Contains(f.Page.Text, []byte(not)) {
			t.Errorf("the page has %q", not)
		}
	}
	if !bytes.Contains(f.Badge.Text, []byte("signals: 0 closed")) || !json.Valid(f.JSON.Text) || xml.Unmarshal(f.Feed.Text,
		new(any)) != nil {
		t.Errorf("%s\n%s\n%s", f.Badge.Text, f.JSON.Text, f.Feed.Text)
	}
	if f.Proof(signal.NewSignalID()) != nil {
		t.Error("there is a proof of a signal that is not shown")
	}
	for _, gone := range []bool{false, true} {
		if page := string(Missing(gone)); strings.Contains(page, "is gone") != gone || !strings.Contains(Policy,
			styleHash("missing.html")) {
			t.Errorf("gone %t: %s", gone, page)
		}
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		rate(12, 29): "12 of 29", rate(12, 30): "40.0 %", rate(0, 0): none,
		signed(1.234, 2): "+1.23", signed(-1.236, 2): "−1.24", signed(-.001, 2): "0.00", signed(.001, 2): "0.00",
		signed(backtest.Figure(math.NaN()), 2): none, percent(.431): "43.1 %",
		grouped(0): "0", grouped(999): "999", grouped(1000): "1,000", grouped(1234567): "1,234,567", grouped(-1000): "-1,000",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if p := plain(.5, 1); p != "0.5" {
		t.Errorf("%q", p)
	}
}

// The sides of a proof lead to the root, as the verifier of the Go checksum database finds it.
func TestSidesOfProofs(t *testing.T) {
	t.Parallel()
	for n := int64(1); n < 40; n++ {
		hashes := storedHashes{}
		for i := range n {
			more, err := tlog.StoredHashes(i, []byte{byte(i)}, hashes)
			if err != nil {
				t.Fatal(err)
			}
			hashes = append(hashes, more...)
		}
		root, err := tlog.TreeHash(n, hashes)
		if err != nil {
			t.Fatal(err)
		}
		for leaf := range n {
			proof, err := tlog.ProveRecord(n, leaf, hashes)
			if err != nil {
				t.Fatal(err)
			}
			h, left := tlog.RecordHash([]byte{byte(leaf)}), sides(n, leaf)
			for i, other := range proof {
				if left[i] {
					h = tlog.NodeHash(other, h)
				} else {
					h = tlog.NodeHash(h, other)
				}
			}
			if h != root || len(left) != len(proof) {
				t.Errorf("leaf %d of %d: sides %v", leaf, n, left)
			}
		}
	}
}

type storedHashes []tlog.Hash

func (s storedHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, n := range indexes {
		list[i] = s[n]
	}
	return list, nil
}
