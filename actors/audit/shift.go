package audit

import (
	"fmt"
	"io"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// A mean signed difference is systematic if it is further from zero than three times its standard
// error, and than what chance allows: differences that each lie within the tolerance have a mean
// within tolerance/sqrt(n). Below a tenth of the tolerance it is not, since series that began at
// other bars differ all in one direction; neither is it of a few signals, which may share a bar.
const (
	shiftErrors = 3
	shiftShare  = 0.1
	shiftCount  = 10
)

// Shift is by how much a member with a tolerance is too high on average, among the signals that
// do not differ.
type Shift struct {
	Member     string           `json:"member"`
	Account    signal.AccountID `json:"account,omitempty"` // empty: of all
	Count      int              `json:"count"`
	Mean       float64          `json:"mean"`
	Share      float64          `json:"share_of_tolerance"`
	Systematic bool             `json:"systematic"`
}

func (s *Shift) print(w io.Writer) {
	if s.Systematic {
		of := ""
		if s.Account != "" {
			of = " of " + string(s.Account)
		}
		fmt.Fprintf(w, "systematic shift of %s%s: by %+.6f on average of %d signals, %+.0f %% of the tolerance\n",
			s.Member, of, s.Mean, s.Count, 100*s.Share)
	} else if s.Account == "" {
		fmt.Fprintf(w, "  mean difference of %s: %+.6f of %d\n", s.Member, s.Mean, s.Count)
	}
}

// moments sum the differences of a member, also as shares of its tolerance, which varies.
type moments struct {
	n                   int
	sum, shares, square float64
}

func (m *moments) add(o *moments) {
	m.n, m.sum, m.shares, m.square = m.n+o.n, m.sum+o.sum, m.shares+o.shares, m.square+o.square
}
