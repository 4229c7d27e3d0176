package signal

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// The functions of this file write JSON values, for events and answers alike.

// AppendPrice adds v, which must be finite, as the shortest decimal that reads back as v,
// without an exponent.
func AppendPrice(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'f', -1, 64) }

// AppendConfidence adds v rounded to 4 decimals, without trailing zeros.
func AppendConfidence(b []byte, v float64) []byte { return AppendPrice(b, RoundConfidence(v)) }

// RoundConfidence returns v rounded to the 4 decimals that are stored and shown.
func RoundConfidence(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// TimeLayout is the form of all times in answers: RFC 3339 with milliseconds, in UTC.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// AppendTime adds t as a JSON string: "2026-11-21T09:30:00.000Z" with quotes. It is
// written by hand because a page of a list holds many times, and time.AppendFormat
// takes five times as long.
func AppendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		b = append(b, '"')
		b = t.AppendFormat(b, TimeLayout)
		return append(b, '"')
	}
	hour, minute, second := t.Clock()
	b = append(b, '"')
	b = appendTwo(b, year/100)
	b = appendTwo(b, year%100)
	b = appendTwo(append(b, '-'), int(month))
	b = appendTwo(append(b, '-'), day)
	b = appendTwo(append(b, 'T'), hour)
	b = appendTwo(append(b, ':'), minute)
	b = appendTwo(append(b, ':'), second)
	ms := t.Nanosecond() / int(time.Millisecond)
	b = append(b, '.', byte('0'+ms/100))
	return append(appendTwo(b, ms%100), 'Z', '"')
}

// appendTwo adds two digits of n, which is from 0 to 99.
func appendTwo(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// AppendText adds s as a JSON string with quotes. Like encoding/json it replaces invalid
// UTF-8 by U+FFFD; unlike it, it escapes DEL, and not the characters that HTML reserves.
func AppendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, s[start:i]...)
				b = append(b, `\ufffd`...)
				start = i + 1
			}
			i += size
			continue
		}
		if c < ' ' || c == '"' || c == '\\' || c == 0x7f {
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			start = i + 1
		}
		i++
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// AppendRunError adds the payload of agent.error: that run of agent failed by e.
func AppendRunError(b []byte, agent AgentID, run RunID, e *RunError) []byte {
	b = append(b, `{"agent_id":"`...)
	b = append(b, agent...)
	b = append(b, `","run_id":"`...)
	b = append(b, run...)
	b = append(b, `","error_code":"`...)
	b = append(b, e.Code...)
	b = append(b, `","message":`...)
	b = AppendText(b, e.Message)
	b = append(b, `,"retryable":`...)
	b = strconv.AppendBool(b, e.Retryable)
	return append(b, '}')
}
