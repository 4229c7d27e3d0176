package recordpage

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/publicrecord"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// pageView is what the page, the badge and the feed show, as text.
type pageView struct {
	Slug, Title, Account, Script string

	AsOf, AsOfDay   string // of the checkpoint; empty without one
	Updated         string // RFC 3339
	Created, Closed string // for all time
	Leaf            string // which leaf counts them; empty: by the word of the service
	Since           string
	Kept, NoLonger  string
	KeptOpen        string
	Priced          string // closed signals with prices
	Committed       string // of these, in a checkpoint before they ended
	All             *figuresView
	Curve           *curveView
	Agents          []agentView
	Months          []sumView // newest first
	MonthAgents     []sumView // the same closings by agent
	Calibration     []bucketView
	ShowOpen        bool
	Open            []signalView
	Shown           []signalView // closed
	Sources         string       // of prices
	Badge           badgeView

	Keys      []keyView
	Sample    string // a signal that is shown, whose proof the steps check
	NotProved []string
}

// figuresView has how closed signals with prices did.
type figuresView struct {
	Count                          string
	Rate, Interval                 string // a rate of some signals is a count, and has no interval
	BreakEven, BreakEvenNet        string
	MeanR, MeanRNet, SumR, SumRNet string
	Drawdown, Brier                string
	TakeProfit, StopLoss, Expired  string
	AgentExit                      string
}

type agentView struct {
	Name, ID     string
	Removed      bool
	Open, Closed string
	figuresView
}

// sumView has what leaves of months sum.
type sumView struct{ Name, Closed, Rate, BreakEven, BreakEvenNet, SumR, SumRNet string }

type bucketView struct{ Range, Count, Confidence, Rate string }

type signalView struct {
	ID, Agent, Asset, Strategy, Direction string
	Entry, Stop, Target, Exit             string
	Confidence, Reason, R, RNet           string
	Created, Closed, ClosedAt             string
	Reasoning                             string
}

// keyView is a public key: NAME+HASH+BASE64, and its parts.
type keyView struct{ Text, Name, Hash, Base64 string }

// costs is the sentence on what results after costs rest on.
const costs = "Costs are a setting of the service and not recorded: results after costs are the word of the operator."

func viewPage(r *publicrecord.Record, p credential.Publication, by *Renderer) *pageView {
	v := &pageView{Slug: p.Slug, Title: p.Title, Account: string(r.Account), Script: by.Script,
		Created: grouped(r.Totals.Created), Closed: grouped(r.Totals.Closed), Since: day(r.Since),
		Kept: grouped(int64(r.Kept)), KeptOpen: grouped(int64(r.Created - r.Kept)), NoLonger: grouped(r.NoLongerKept()),
		ShowOpen: p.ShowOpen, Sources: strings.Join(r.Sources, ", "),
		NotProved: []string{strings.ReplaceAll(record.Limits, "\n", " "),
			"Several accounts of one operator cannot be seen from here.", costs}}
	if r.Checkpoint != nil {
		v.AsOf, v.AsOfDay, v.Updated = minute(r.Checkpoint.At), day(r.Checkpoint.At), r.Checkpoint.At.UTC().Format(time.RFC3339)
	} else {
		v.Updated = r.Since.UTC().Format(time.RFC3339) // an Atom feed needs a time, and nothing has happened since
	}
	if r.Newest != nil {
		v.Leaf = fmt.Sprintf("leaf %s of log %d", grouped(r.Newest.Index), r.Newest.Log)
	}
	if r.All.Count > 0 {
		all := viewFigures(&r.All)
		v.All, v.Priced, v.Committed, v.Curve = &all, all.Count, grouped(int64(r.Committed)), viewCurve(r.Curve)
		for _, b := range r.All.Reliability {
			if b.Count > 0 {
				v.Calibration = append(v.Calibration, bucketView{percentOf(b.From) + " – " + percent(b.To),
					grouped(int64(b.Count)),
					percent(b.MeanConfidence), rate(int(math.Round(float64(b.HitRate)*float64(b.Count))), b.Count)})
			}
		}
	}
	for i := range r.Agents {
		v.Agents = append(v.Agents, viewAgent(&r.Agents[i]))
	}
	if r.Rest != nil {
		rest := viewAgent(r.Rest)
		rest.Name = fmt.Sprintf("%d others", r.Others)
		v.Agents = append(v.Agents, rest)
	}
	v.Months, v.MonthAgents = viewMonths(r)
	for i := range r.Open {
		v.Open = append(v.Open, viewSignal(&r.Open[i]))
	}
	for i := range r.Closed {
		v.Shown = append(v.Shown, viewSignal(&r.Closed[i]))
		if v.Sample == "" && r.Closed[i].CreatedLeaf != nil {
			v.Sample = string(r.Closed[i].ID)
		}
	}
	for _, key := range by.Keys {
		name, rest, _ := strings.Cut(key, "+")
		hash, text, _ := strings.Cut(rest, "+")
		v.Keys = append(v.Keys, keyView{key, name, hash, text})
	}
	v.Badge = viewBadge(v)
	return v
}

func viewFigures(s *backtest.Statistics) figuresView {
	v := figuresView{Count: grouped(int64(s.Count)), Rate: rate(s.Wins, s.Count), BreakEven: percent(s.BreakEven),
		BreakEvenNet: percent(s.BreakEvenNet), MeanR: signed(s.MeanR, 3), MeanRNet: signed(s.ExpectancyR, 3),
		SumR: none, SumRNet: none,
		Drawdown: plain(s.MaxDrawdownR, 1), Brier: plain(s.Brier, 3), TakeProfit: grouped(int64(s.Reasons.TakeProfit)),
		StopLoss: grouped(int64(s.Reasons.StopLoss)), Expired: grouped(int64(s.Reasons.Expired)),
		AgentExit: grouped(int64(s.Reasons.AgentExit))}
	if s.Count > 0 {
		v.SumR, v.SumRNet = signed(s.MeanR*backtest.Figure(s.Count), 1), signed(s.TotalR, 1)
	}
	if s.Count >= backtest.MinForRates {
		v.Interval = percentOf(s.HitRateInterval.Low) + " – " + percent(s.HitRateInterval.High)
	}
	return v
}

func viewAgent(a *publicrecord.Agent) agentView {
	v := agentView{Name: a.Name, ID: string(a.ID), Removed: a.Removed, Open: grouped(int64(a.Open)),
		Closed:      grouped(int64(a.Closed)),
		figuresView: viewFigures(&a.Statistics)}
	if v.Name == "" {
		v.Name = v.ID
	}
	return v
}

// maxMonths is how many months are shown by themselves.
const maxMonths = 24

// viewMonths returns the newest months and the agents with the most closings in all of them, the rest of each in one sum.
func viewMonths(r *publicrecord.Record) (months, agents []sumView) {
	byAgent := map[string]*verify.Month{}
	var earlier verify.Month
	for i, m := range slices.Backward(r.Months) {
		if len(r.Months)-i > maxMonths {
			earlier.Agents = append(earlier.Agents, m.Agents...)
		} else {
			months = append(months, viewSum(m.Month.Month, m.Sum()))
		}
		for _, a := range m.Agents {
			if byAgent[a.Agent] == nil {
				byAgent[a.Agent] = &verify.Month{}
			}
			byAgent[a.Agent].Agents = append(byAgent[a.Agent].Agents, a)
		}
	}
	if n := len(r.Months) - maxMonths; n > 0 {
		months = append(months, viewSum(fmt.Sprintf("%d earlier", n), earlier.Sum()))
	}
	ids := slices.SortedFunc(maps.Keys(byAgent), func(a, b string) int {
		return cmp.Or(cmp.Compare(byAgent[b].Sum().Closed, byAgent[a].Sum().Closed), cmp.Compare(a, b))
	})
	var rest verify.Month
	for i, id := range ids {
		if i < publicrecord.MaxAgents {
			agents = append(agents, viewSum(id, byAgent[id].Sum()))
		} else {
			rest.Agents = append(rest.Agents, byAgent[id].Agents...)
		}
	}
	if n := len(ids) - publicrecord.MaxAgents; n > 0 {
		agents = append(agents, viewSum(fmt.Sprintf("%d others", n), rest.Sum()))
	}
	return months, agents
}

func viewSum(name string, a verify.AgentSum) sumView {
	p := backtest.Payoff{Count: int(a.Priced), Wins: int(a.Won), Gains: a.Gains, Losses: a.Losses, Costs: a.Costs,
		Targets: a.Targets}
	before, net := p.BreakEven()
	return sumView{name, grouped(a.Closed), rate(p.Wins, p.Count), percent(before), percent(net),
		signed(backtest.Figure(a.Gains-a.Losses), 1), signed(backtest.Figure(a.Gains-a.Losses-a.Costs), 1)}
}

func viewSignal(s *publicrecord.Signal) signalView {
	v := signalView{ID: string(s.ID), Agent: string(s.Agent), Asset: s.Asset, Strategy: s.Strategy,
		Direction:  string(s.Direction),
		Confidence: percent(backtest.Figure(s.FirstConfidence)), Created: minute(s.CreatedAt), Reasoning: s.Reasoning}
	if l := s.Levels; l != nil {
		v.Entry, v.Stop, v.Target = price(l.Entry), price(l.Stop), price(l.Target)
	}
	if c := s.Closing; c != nil {
		v.Closed, v.ClosedAt, v.Reason = minute(c.At), c.At.UTC().Format(time.RFC3339), strings.ReplaceAll(string(c.Reason),
			"_", " ")
		if c.ExitPrice != nil {
			v.Exit = price(*c.ExitPrice)
		}
	}
	if s.R != nil {
		v.R, v.RNet = signed(backtest.Figure(*s.R), 2), signed(backtest.Figure(*s.RNet), 2)
	}
	return v
}

// curveView draws the sums of results over time.
type curveView struct {
	Width, Height   int
	Gross, Net      string // data of paths
	Zero            int    // where no result is
	Top, Bottom     string // the largest and the smallest sum
	From, To        string
	LastR, LastRNet string
}

const curveWidth, curveHeight = 1600, 400

func viewCurve(points []scorecard.Point) *curveView {
	low, high := 0., 0.
	for _, p := range points {
		low, high = min(low, p.R, p.RNet), max(high, p.R, p.RNet)
	}
	span := high - low
	if span == 0 {
		span = 1
	}
	y := func(r float64) int { return int(math.Round((high - r) / span * curveHeight)) }
	gross, net := fmt.Sprintf("M0 %d", y(0)), fmt.Sprintf("M0 %d", y(0))
	for i, p := range points {
		x := (i + 1) * curveWidth / len(points)
		gross += fmt.Sprintf("L%d %d", x, y(p.R))
		net += fmt.Sprintf("L%d %d", x, y(p.RNet))
	}
	last := points[len(points)-1]
	return &curveView{Width: curveWidth, Height: curveHeight, Gross: gross, Net: net, Zero: y(0),
		Top: signed(backtest.Figure(high), 1), Bottom: signed(backtest.Figure(low), 1), From: day(points[0].At), To: day(last.At),
		LastR: signed(backtest.Figure(last.R), 1), LastRNet: signed(backtest.Figure(last.RNet), 1)}
}

// badgeView is the badge: a label and a text, with their widths.
type badgeView struct {
	Label, Text             string
	LabelWidth, Width       int
	LabelCentre, TextCentre int
}

func viewBadge(v *pageView) badgeView {
	b := badgeView{Label: "signals", Text: v.Closed + " closed"}
	if v.All != nil {
		b.Text += " · " + v.All.Rate
		if v.All.Interval != "" {
			b.Text += " hit"
		} else {
			b.Text += " in profit"
		}
		b.Text += ", break-even " + v.All.BreakEvenNet + " · " + v.All.SumRNet + " R net"
	}
	if v.AsOfDay != "" {
		b.Text += " · " + v.AsOfDay
	}
	const letter, margin = 7, 12 // width of a letter of 11 px, and of what is around a text
	b.LabelWidth = letter*len([]rune(b.Label)) + margin
	text := letter*len([]rune(b.Text)) + margin
	b.Width, b.LabelCentre, b.TextCentre = b.LabelWidth+text, b.LabelWidth/2, b.LabelWidth+text/2
	return b
}

// rate returns a share in percent, and of some signals the counts, because a share of these is read as a probability.
func rate(wins, count int) string {
	if count == 0 {
		return none
	}
	if count < backtest.MinForRates {
		return fmt.Sprintf("%d of %d", wins, count)
	}
	return percent(backtest.Figure(wins) / backtest.Figure(count))
}

// none stands for a figure without a value.
const none = "–"

func isNone(f backtest.Figure) bool { return math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) }

// percent returns a share as "43.1 %", percentOf without the sign.
func percent(f backtest.Figure) string {
	if isNone(f) {
		return none
	}
	return percentOf(f) + " %"
}

func percentOf(f backtest.Figure) string {
	if isNone(f) {
		return none
	}
	return strconv.FormatFloat(float64(f)*100, 'f', 1, 64)
}

// signed returns a number with its sign, as "+1.50" and "−0.20"; plain without the sign of what is above 0.
func signed(f backtest.Figure, decimals int) string {
	text := plain(f, decimals)
	if text != none && !strings.HasPrefix(text, minus) && strings.Trim(text, "0.") != "" {
		return "+" + text
	}
	return text
}

const minus = "−"

func plain(f backtest.Figure, decimals int) string {
	if isNone(f) {
		return none
	}
	text := strconv.FormatFloat(math.Abs(float64(f)), 'f', decimals, 64)
	if f < 0 && strings.Trim(text, "0.") != "" {
		return minus + text
	}
	return text
}

// grouped returns a whole number with commas between thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func price(v float64) string { return string(signal.AppendPrice(nil, v)) }

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
