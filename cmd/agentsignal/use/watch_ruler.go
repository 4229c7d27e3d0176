package use

import (
	"math"
	"strings"

	"github.com/agentsignal/agentsignal/http/client"
)

// rulerScale has the R values at both ends of a ruler. Rows share one, so that their entries lie below
// each other.
type rulerScale struct{ from, to float64 }

const (
	rulerMargin = .25 // in R, at both ends: a stop may be missed by some of it
	maxRuler    = 5   // farther targets are at the end of the ruler
)

// fitRuler returns a scale for targets in R, as the console does it.
func fitRuler(targets []float64) rulerScale {
	far := 1.
	for _, t := range targets {
		far = max(far, min(maxRuler, t))
	}
	return rulerScale{-1 - rulerMargin, math.Ceil(far*2-.05)/2 + rulerMargin}
}

// at returns the column of a value on a ruler, at most that of its ends.
func (s rulerScale) at(r float64, width int) int {
	share := min(max((r-s.from)/(s.to-s.from), 0), 1)
	return int(math.Round(share * float64(width-1)))
}

// ruler draws a signal in R: the stretch from stop to entry, that from entry to target, and the result, as
// a dot while it is that of the price now, and as a diamond at its end. Without prices it is blank.
func (p *printer) ruler(s *client.Signal, result *float64, scale rulerScale, width int) string {
	target := resultAt(s, s.Target)
	if target == nil || width < 1 {
		return strings.Repeat(" ", max(width, 0))
	}
	cells := make([]cell, width)
	for i := range cells {
		cells[i] = cell{text: " "}
	}
	stop, entry, goal := scale.at(-1, width), scale.at(0, width), scale.at(*target, width)
	for i := stop; i < entry; i++ {
		cells[i] = cell{text: "░", style: bad}
	}
	for i := entry + 1; i <= goal; i++ {
		cells[i] = cell{text: "▒", style: good}
	}
	cells[stop] = cell{text: "▐", style: bad}
	cells[goal] = cell{text: "▌", style: good}
	cells[entry] = cell{text: "│"}
	if result != nil {
		c := cell{text: "●", style: strong}
		if s.Status == "closed" {
			c.text = "◆"
		}
		switch {
		case *result < scale.from:
			c.text = "◀"
		case *result > scale.to:
			c.text = "▶"
		}
		if math.Abs(*result) >= .005 {
			c.style += ";" + signStyle(result)
		}
		cells[scale.at(*result, width)] = c
	}
	return p.join(cells)
}

// axis draws the scale above rulers.
func (p *printer) axis(scale rulerScale, width int) string {
	text := []rune(strings.Repeat(" ", max(width, 0)))
	next := 0
	for _, mark := range []struct {
		r    float64
		text string
	}{{-1, "-1R"}, {0, "entry"}, {1, "+1R"}, {2, "+2R"}, {3, "+3R"}, {4, "+4R"}, {5, "+5R"}} {
		from := scale.at(mark.r, width) - len(mark.text)/2
		if mark.r > scale.to || from < next || from+len(mark.text) > width {
			continue
		}
		copy(text[from:], []rune(mark.text))
		next = from + len(mark.text) + 1
	}
	return string(text)
}

// join returns cells beside each other, with one change of style for a run of equal ones.
func (p *printer) join(cells []cell) string {
	var b strings.Builder
	for i := 0; i < len(cells); {
		run := cell{style: cells[i].style}
		for ; i < len(cells) && cells[i].style == run.style; i++ {
			run.text += cells[i].text
		}
		b.WriteString(p.paint(run))
	}
	return b.String()
}
