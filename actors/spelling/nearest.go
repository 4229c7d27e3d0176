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

// Nearest returns those of known that word may stand for, the nearest first, at most
// three. Names are near if at most a quarter of the characters of the longer one, at least
// one and at most three, must be inserted, removed, replaced or swapped with their
// neighbour. ASCII case does not count. Equally near names keep the order of known. The
// result is empty if none is near.
func Nearest(word string, known []string) []string {
	if utf8.RuneCountInString(word) > maxCompared {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	folded, set := []rune(Fold(word)), letters(word)
	for _, name := range known {
		length := utf8.RuneCountInString(name)
		longer := max(len(folded), length)
		most := max(1, min(longer/4, maxDistance))
		if longer > maxCompared || abs(len(folded)-length) > most || bits.OnesCount64(set^letters(name)) > 2*most {
			continue
		}
		if d := distance(folded, []rune(Fold(name))); d <= most && d < longer {
			near = append(near, candidate{name, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	names := make([]string, 0, maxSuggested)
	for _, c := range near[:min(len(near), maxSuggested)] {
		names = append(names, c.name)
	}
	return names
}

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
