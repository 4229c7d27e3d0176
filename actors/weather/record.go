package weather

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/klauspost/compress/s2"
)

// recordVersion is the first byte of stored weather.
const recordVersion = 1

const (
	dayValues = 6
	// maxRecordDays bounds a decoded series: it is more than any archive has.
	maxRecordDays = 40_000
)

// appendForecast appends a series with the time of its run, which is zero for an archive.
// The values are grouped by kind, because those of one kind are similar and compress
// well.
func appendForecast(b []byte, f forecast) []byte {
	b = append(b, recordVersion)
	run := int64(0)
	if !f.run.IsZero() {
		run = f.run.UnixMilli()
	}
	b = binary.AppendVarint(b, run)
	b = binary.AppendVarint(b, int64(f.series.From))
	raw := make([]byte, 0, 4*dayValues*len(f.series.Days))
	for v := range dayValues {
		for i := range f.series.Days {
			raw = binary.BigEndian.AppendUint32(raw, math.Float32bits(*f.series.Days[i].value(v)))
		}
	}
	return append(b, s2.Encode(nil, raw)...)
}

// value returns a pointer to one of the dayValues values.
func (d *Day) value(v int) *float32 {
	return [dayValues]*float32{&d.Mean, &d.Max, &d.Min, &d.Rain, &d.ET0, &d.Gust}[v]
}

var errRecord = errors.New("decode weather: it is cut short")

// decodeForecast is the inverse of appendForecast.
func decodeForecast(b []byte) (forecast, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return forecast{}, errors.New("decode weather: version is not known")
	}
	b = b[1:]
	run, n := binary.Varint(b)
	if n <= 0 {
		return forecast{}, errRecord
	}
	b = b[n:]
	from, n := binary.Varint(b)
	if n <= 0 || from < -1_000_000 || from > 1_000_000 {
		return forecast{}, errRecord
	}
	b = b[n:]
	size, err := s2.DecodedLen(b)
	if err != nil || size > 4*dayValues*maxRecordDays || size%(4*dayValues) != 0 {
		return forecast{}, errRecord
	}
	raw, err := s2.Decode(make([]byte, size), b)
	if err != nil {
		return forecast{}, fmt.Errorf("decode weather: %w", err)
	}
	f := forecast{series: &Series{From: Date(from), Days: make([]Day, size/4/dayValues)}}
	if run != 0 {
		f.run = time.UnixMilli(run).UTC()
	}
	for v := range dayValues {
		for i := range f.series.Days {
			*f.series.Days[i].value(v) = math.Float32frombits(binary.BigEndian.Uint32(raw))
			raw = raw[4:]
		}
	}
	return f, nil
}
