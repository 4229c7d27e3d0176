// Package spelling compares names in any case, and finds the known names that a misspelt one
// may stand for. It is pure, and imports nothing of ours: settings, requests and messages
// share it.
package spelling

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxSuggested is the maximum number of suggested names.
	maxSuggested = 3
	// maxDistance is the maximum number of edits between near names.
	maxDistance = 3
	// maxCompared is the maximum length of compared names, in characters: the cost is the
	// product of both lengths, and a longer name is no typing error.
	maxCompared = 64
)

// Names are known names, prepared for the comparison with many words. The zero value has none.
type Names struct{ list []known }

// known is a name with what excludes most names without their distance.
type known struct {
	name    string
	length  int // in characters
	letters uint64
}

// With returns the names of n and more.
func (n Names) With(more []string) Names {
	list := slices.Grow(slices.Clip(n.list), len(more))
	for _, name := range more {
		list = append(list, known{name, utf8.RuneCountInString(name), letters(name)})
	}
	return Names{list}
}

// Nearest returns those names that word may stand for, the nearest first, at most three. Names
// are near if at most a quarter of the characters of the longer one, at least one and at most
// three, must be inserted, removed, replaced or swapped with their neighbour. ASCII case does not
// count. Equally near names keep their order. The result is empty if none is near.
func (n Names) Nearest(word string) []string {
	if utf8.RuneCountInString(word) > maxCompared {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	folded, set := []rune(Fold(word)), letters(word)
	for i := range n.list {
		k := &n.list[i]
		longer := max(len(folded), k.length)
		most := max(1, min(longer/4, maxDistance))
		if longer > maxCompared || abs(len(folded)-k.length) > most || bits.OnesCount64(set^k.letters) > 2*most {
			continue
		}
		if d := distance(folded, []rune(Fold(k.name))); d <= most && d < longer {
			near = append(near, candidate{k.name, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	names := make([]string, 0, maxSuggested)
	for _, c := range near[:min(len(near), maxSuggested)] {
		names = append(names, c.name)
	}
	return names
}

// Nearest is Names.Nearest for one word.
func Nearest(word string, known []string) []string { return Names{}.With(known).Nearest(word) }

// DidYouMean returns a question such as "did you mean BTC or BTH?", or "" without names.
func DidYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}

// letters returns the set of the characters of s modulo 64, ignoring ASCII case. An edit changes two of its
// bits at most, so that it excludes most of ten thousand names without their distance.
func letters(s string) (set uint64) {
	for _, r := range s {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		set |= 1 << (r % 64)
	}
	return set
}

func abs(n int) int { return max(n, -n) }

// Fold returns s with ASCII letters in upper case.
func Fold(s string) string {
	for i := range len(s) {
		if 'a' <= s[i] && s[i] <= 'z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'a' <= b[i] && b[i] <= 'z' {
					b[i] -= 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// Shorten returns s, or its first 64 characters with an ellipsis, in valid UTF-8.
func Shorten(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= maxCompared {
		return s
	}
	return string([]rune(s)[:maxCompared]) + "…"
}

// distance is the optimal string alignment distance: Damerau-Levenshtein in which no
// part is edited twice.
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
