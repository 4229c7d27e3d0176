package strategy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// pastOf returns the outcomes of some assets over a number of blocks: those of assets that move
// together, with the share of long and of short entries that close in profit in each block.
func pastOf(assets, blocks int, long func(block int) float64) *past {
	const bars = blockBars / 4 // which lie apart, so that lives do not overlap
	r := rand.New(rand.NewPCG(1, 2))
	p := &past{barTime: hour}
	for i := range blocks * bars {
		share := long(i / bars)
		up, down := int8(-20), int8(-20)
		if r.Float64() < share {
			up = 30
		}
		if r.Float64() < 0.8-share {
			down = 30
		}
		for a := range assets {
			o := Outcome{Bar: int64(i) * 4 * hour, R: [2][3]int8{{up, up, up}, {down, down, down}}}
			for s := range o.Bins {
				o.Bins[s] = uint8(s*5+(i+a)%2*9) + strengthBins*uint8(i/3%2)
			}
			x := countedOf(&o)
			p.add(&x, &o.Bins, o.Bar, 1)
		}
	}
	return p
}

// TestDesignEffect checks that assets that move together count as one, and that a market that helps one
// direction and harms the other does not count where both do.
func TestDesignEffect(t *testing.T) {
	even := func(int) float64 { return 0.4 }
	turning := func(b int) float64 { return []float64{0.55, 0.25}[b%2] }
	for _, c := range []struct {
		name      string
		p         *past
		one, both float64 // about
	}{
		{"one asset", pastOf(1, 60, even), 1, 1},
		{"five assets", pastOf(5, 60, even), 5, 5},
		{"a market that turns", pastOf(1, 60, turning), 4.2, 1},
	} {
		c.p.count(1)
		one, both := c.p.designEffects(1)
		if one < 0.7*c.one || one > 1.4*c.one || both < 0.7*c.both || both > 1.4*c.both {
			t.Errorf("%s: design effects %.2f and %.2f, want about %v and %v", c.name, one, both, c.one, c.both)
		}
	}
	for _, p := range []*past{pastOf(1, 60, even), {barTime: hour}} {
		p.count(1)
		if one, both := p.designEffects(6); one != 6 || both != 6 {
			t.Errorf("design effects %.2f and %.2f, want those of one asset, 6, as the least", one, both)
		}
	}
}

// TestSlope checks what the past shows of a drift that lasts, of one that turns, and of none.
func TestSlope(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks int
		long   func(block int) float64
		proven bool
		kept   [2]float64 // bounds
	}{
		{"a drift that lasts", 40, func(int) float64 { return 0.55 }, true, [2]float64{0.6, 1}},
		{"a drift that turns", 40, func(b int) float64 { return []float64{0.55, 0.25}[b/3%2] }, false, [2]float64{0, 0.2}},
		{"no drift", 40, func(int) float64 { return 0.4 }, false, [2]float64{0, 0.6}},
		{"a drift of which little is known", minBlocks, func(int) float64 { return 0.55 }, false,
			[2]float64{slopePrior, slopePrior}},
	} {
		e := pastOf(3, c.blocks, c.long).evidence(1, 1)
		if e.proven() != c.proven || e.kept() < c.kept[0] || e.kept() > c.kept[1] {
			t.Errorf("%s: proven %v, kept %.2f, want %v and %v; %+v", c.name, e.proven(), e.kept(), c.proven, c.kept, e)
		}
	}
}

// TestLongAndShortAreComparedApart gives a series outcomes of other assets whose long entries won more
// often than their short ones, for years: so are those of the asset expected to.
func TestLongAndShortAreComparedApart(t *testing.T) {
	bars := walk(7, 900, 0.01)
	first := bars[0].OpenTime - 5000*hour
	pool := NewPool(0)
	r := rand.New(rand.NewPCG(5, 6))
	result := func(share float64) int8 {
		if r.Float64() < share {
			return 30
		}
		return -20
	}
	for i := range int64(4900) {
		for asset := range 3 {
			o := Outcome{Bar: first + i*hour, Ended: first + (i+1)*hour, At: first + (i+1)*hour}
			for s := range o.Bins {
				o.Bins[s] = uint8(r.IntN(2 * strengthBins))
			}
			for risk := range 3 {
				o.R[0][risk], o.R[1][risk] = result(0.55), result(0.25)
			}
			pool.Add(fmt.Sprint("B", asset), o)
		}
	}
	s, alone := NewSeries(signal.H1).InPool(pool, "A", nil), NewSeries(signal.H1)
	var apart [2]float64
	var n [2]int
	for i, b := range bars {
		add(t, s, b)
		if add(t, alone, b); i < 400 || i%10 != 0 {
			continue
		}
		a, own := assess(t, s, Momentum, signal.MediumRisk), assess(t, alone, Momentum, signal.MediumRisk)
		d := 0
		if a.Direction == signal.Short {
			d = 1
		}
		apart[d] += a.Confidence - own.Confidence
		n[d]++
		if !a.Proven || own.Proven {
			t.Fatalf("bar %d: proven %v with the others, %v alone", i, a.Proven, own.Proven)
		}
	}
	long, short := apart[0]/float64(n[0]), apart[1]/float64(n[1])
	if math.IsNaN(long+short) || long < 0.05 || short > -0.05 {
		t.Errorf("the others change confidence by %+.3f of long signals and by %+.3f of short ones", long, short)
	}
}
