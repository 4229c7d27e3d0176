package weather

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strings"
)

// inputHash returns the SHA-256, in hexadecimal, of all that an outlook is made of: the question,
// the day, and the forecast and archive of each point in the order of their names.
func inputHash(q Question, run Date, at []*Point, forecast, archive map[string]*Series) string {
	b := []byte(strings.Join([]string{"1", q.Strategy, q.Commodity, q.Region, run.String()}, "\n"))
	sorted := slices.SortedFunc(slices.Values(at), func(a, b *Point) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, p := range sorted {
		b = append(append(b, '\n'), p.Name...)
		for _, s := range []*Series{forecast[p.Name], archive[p.Name]} {
			b = binary.LittleEndian.AppendUint64(b, uint64(s.From))
			b = binary.LittleEndian.AppendUint64(b, uint64(len(s.Days)))
			for _, d := range s.Days { // binary.Append of the days reflects on each value
				for _, v := range [...]float32{d.Mean, d.Max, d.Min, d.Rain, d.ET0, d.Gust} {
					b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
				}
			}
		}
		h.Write(b)
		b = b[:0]
	}
	return hex.EncodeToString(h.Sum(nil))
}
