package record

import (
	"fmt"
	"slices"
	"strings"
)

// Tally counts the signals of an agent that erased accounts had when they were erased. Older ones, which retention had
// removed, are not among them.
type Tally struct {
	Agent   string // as signal.AgentID.Label has it: the own agents of all accounts have one tally
	Signals int64
	Won     int64 // closed with a profit before costs
	Lost    int64 // closed without one
}

// Tallies are in the order of the names of agents.
type Tallies []Tally

// String returns AGENT=SIGNALS/WON/LOST of each, separated by spaces.
func (t Tallies) String() string {
	words := make([]string, len(t))
	for i, a := range t {
		words[i] = fmt.Sprintf("%s=%d/%d/%d", a.Agent, a.Signals, a.Won, a.Lost)
	}
	return strings.Join(words, " ")
}

// ParseTallies is the inverse of String. It accepts nothing that String would not write.
func ParseTallies(text string) (t Tallies, err error) {
	if text == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, " ") {
		agent, counts, _ := strings.Cut(word, "=")
		a := Tally{Agent: agent}
		if _, err = fmt.Sscanf(counts, "%d/%d/%d", &a.Signals, &a.Won, &a.Lost); err != nil || agent == "" ||
			len(t) > 0 && t[len(t)-1].Agent >= agent || min(a.Won, a.Lost, a.Signals-a.Won-a.Lost) < 0 {
			return nil, fmt.Errorf("%.40q does not count signals", word)
		}
		t = append(t, a)
	}
	if t.String() != text {
		return nil, fmt.Errorf("%.40q is not of the written form", text)
	}
	return t, nil
}

// Plus returns the sums of both by agent.
func (t Tallies) Plus(more Tallies) Tallies {
	sum := slices.Clone(t)
	for _, a := range more {
		i, known := slices.BinarySearchFunc(sum, a.Agent, func(t Tally, agent string) int {
			return strings.Compare(t.Agent, agent)
		})
		if !known {
			sum = slices.Insert(sum, i, Tally{Agent: a.Agent})
		}
		sum[i].Signals, sum[i].Won, sum[i].Lost = sum[i].Signals+a.Signals, sum[i].Won+a.Won, sum[i].Lost+a.Lost
	}
	return sum
}

// Shrunk reports whether a tally counts less than before.
func (t Tallies) Shrunk(before Tallies) bool {
	for _, was := range before {
		i := slices.IndexFunc(t, func(a Tally) bool { return a.Agent == was.Agent })
		if i < 0 || t[i].Signals < was.Signals || t[i].Won < was.Won || t[i].Lost < was.Lost {
			return true
		}
	}
	return false
}
