package barfile

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// DecimalSign is how a file writes numbers.
type DecimalSign string

// The decimal signs. Unknown means that the file decides.
const (
	UnknownDecimal DecimalSign = ""
	Point          DecimalSign = "point"
	Comma          DecimalSign = "comma"
)

// sign returns the character.
func (d DecimalSign) sign() byte {
	if d == Comma {
		return ','
	}
	return '.'
}

// pow10 has the powers of ten by which plain numbers are divided.
var pow10 = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// parseNumber reads a decimal number. Plain ones of at most 15 digits are read here: both the
// digits and the power of ten are exact then, so the quotient is rounded once, as by strconv.
func parseNumber(cell []byte, decimal byte) (float64, bool) {
	var digits uint64
	point := -1
	for i, c := range cell {
		switch {
		case c-'0' <= 9:
			digits = digits*10 + uint64(c-'0')
		case c == decimal && point < 0:
			point = i
		default:
			return parseOther(cell, decimal)
		}
	}
	switch n := len(cell); {
	case point < 0 && n > 0 && n <= 15:
		return float64(digits), true
	case point >= 0 && n > 1 && n <= 16:
		return float64(digits) / pow10[n-1-point], true
	}
	return parseOther(cell, decimal)
}

// parseOther reads a number that is not plain: long, with an exponent, with separators of
// thousands, with the sign of a currency before it or with K, M, B or T after it.
func parseOther(cell []byte, decimal byte) (float64, bool) {
	const maxNumber = 64
	text := strings.TrimLeft(string(cell[:min(len(cell), maxNumber)]), "$€£¥₹ ")
	if text == "" || len(cell) > maxNumber {
		return 0, false
	}
	unit := 1.0
	if i := strings.IndexByte("KMBT", text[len(text)-1]&^0x20); i >= 0 {
		unit, text = math.Pow10(3*(i+1)), text[:len(text)-1]
	}
	var plain []byte
	pointed := false
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9' || c == '-' || c == '+' || c == 'e' || c == 'E':
			plain = append(plain, byte(c))
		case c == rune(decimal):
			plain, pointed = append(plain, '.'), true
		case strings.ContainsRune(".,'’ \u00a0\u202f", c) && i > 0 && !pointed:
			group := text[i+len(string(c)):]
			if len(group) < 3 || !allDigits([]byte(group[:3])) {
				return 0, false
			}
		default:
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(string(plain), 64)
	return v * unit, err == nil && !math.IsInf(v*unit, 0)
}

// allDigits reports whether text is digits only.
func allDigits(text []byte) bool {
	for _, c := range text {
		if c-'0' > 9 {
			return false
		}
	}
	return len(text) > 0
}

// absent reports whether a cell stands for no value.
func absent(cell []byte) bool {
	if len(cell) > 4 {
		return false
	}
	switch strings.ToLower(string(cell)) {
	case "", "-", "--", "nan", "null", "n/a", "na", "none":
		return true
	}
	return false
}

// signVotes counts the numbers that show point and comma as decimal sign.
type signVotes struct{ point, comma int }

// add adds a number.
func (v *signVotes) add(cell []byte) {
	end := bytes.LastIndexAny(cell, "0123456789") + 1
	point, comma := bytes.LastIndexByte(cell[:end], '.'), bytes.LastIndexByte(cell[:end], ',')
	at, other := point, comma
	for_, against := &v.point, &v.comma
	if comma > point {
		at, other, for_, against = comma, point, against, for_
	}
	switch {
	case at < 0:
	case other >= 0:
		*for_++ // the last of both is the decimal sign
	case bytes.Count(cell[:end], cell[at:at+1]) > 1:
		*against++ // only separators of thousands are repeated
	case end-at-1 != 3 || at > 3 || cell[0] == '0':
		*for_++
	}
}
