package market

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Each record of the market begins with a byte for its version. A record that is too short or too
// long is refused.

const (
	recordVersion = 1

	barFlat  = 1
	barGiven = 2
	// barBytes is the length of a packed bar. It includes the open time, so that two bars of a
	// series never have the same bytes, which a sorted set would store once.
	barBytes = 1 + 1 + 8 + 4 + 5*8
)

var errRecord = errors.New("record is damaged")

func packBar(b *marketdata.AssetBar) []byte {
	p := make([]byte, 0, barBytes)
	var flags byte
	if b.Flat {
		flags |= barFlat
	}
	if b.Given {
		flags |= barGiven
	}
	p = append(p, recordVersion, flags)
	return appendBar(p, &b.Bar)
}

func appendBar(p []byte, b *marketdata.Bar) []byte {
	p = binary.LittleEndian.AppendUint64(p, uint64(b.OpenTime))
	p = binary.LittleEndian.AppendUint32(p, uint32(b.CloseTime-b.OpenTime))
	for _, v := range [...]float64{b.Open, b.High, b.Low, b.Close, b.Volume} {
		p = binary.LittleEndian.AppendUint64(p, math.Float64bits(v))
	}
	return p
}

// unpackBar reads a bar of packBar, which has no asset and timeframe.
func unpackBar(data string) (marketdata.AssetBar, error) {
	r := recordReader{data: data}
	r.version()
	flags := r.byte()
	b := marketdata.AssetBar{Given: flags&barGiven != 0, Bar: r.bar()}
	b.Flat = flags&barFlat != 0
	if flags&^(barFlat|barGiven) != 0 {
		r.bad = true
	}
	if err := r.end(); err != nil {
		return marketdata.AssetBar{}, fmt.Errorf("read bar: %w", err)
	}
	return b, nil
}

func packAsset(a *marketdata.Asset) []byte {
	p := []byte{recordVersion}
	p = appendText(p, a.Symbol)
	p = appendText(p, a.Class)
	p = appendText(p, a.Source)
	p = binary.LittleEndian.AppendUint64(p, math.Float64bits(a.TickSize))
	p = binary.LittleEndian.AppendUint64(p, uint64(a.Speed))
	if a.AlwaysOpen {
		return append(p, 1)
	}
	return append(p, 0)
}

func unpackAsset(data string) (marketdata.Asset, error) {
	r := recordReader{data: data}
	r.version()
	a := marketdata.Asset{Symbol: r.text(), Class: r.text(), Source: r.text(), TickSize: r.float(), Speed: r.int64()}
	a.AlwaysOpen = r.byte() == 1
	if err := r.end(); err != nil {
		return marketdata.Asset{}, fmt.Errorf("read asset: %w", err)
	}
	return a, nil
}

func packLive(l *marketdata.Live) []byte {
	p := []byte{recordVersion}
	p = binary.LittleEndian.AppendUint64(p, math.Float64bits(l.Last.Price))
	p = binary.LittleEndian.AppendUint64(p, math.Float64bits(l.Last.Volume))
	p = binary.LittleEndian.AppendUint64(p, uint64(l.Last.Time))
	return appendBar(p, &l.Minute)
}

func unpackLive(asset, data string) (marketdata.Live, error) {
	r := recordReader{data: data}
	r.version()
	last := marketdata.Tick{Price: r.float(), Volume: r.float(), Time: r.int64()}
	l := marketdata.Live{Asset: asset, Last: last, Minute: r.bar()}
	if err := r.end(); err != nil {
		return marketdata.Live{}, fmt.Errorf("read live prices: %w", err)
	}
	return l, nil
}

func packNews(n *marketdata.NewsItem) []byte {
	p := []byte{recordVersion}
	p = binary.LittleEndian.AppendUint64(p, uint64(n.At))
	p = binary.LittleEndian.AppendUint64(p, math.Float64bits(n.Weight))
	for _, s := range [...]string{n.ID, n.Headline, n.Body, n.Source} {
		p = appendText(p, s)
	}
	p = binary.AppendUvarint(p, uint64(len(n.Symbols)))
	for _, s := range n.Symbols {
		p = appendText(p, s)
	}
	return p
}

func unpackNews(data string) (marketdata.NewsItem, error) {
	r := recordReader{data: data}
	r.version()
	n := marketdata.NewsItem{At: r.int64(), Weight: r.float()}
	n.ID, n.Headline, n.Body, n.Source = r.text(), r.text(), r.text(), r.text()
	for left := r.length(); left > 0; left-- {
		n.Symbols = append(n.Symbols, r.text())
	}
	if err := r.end(); err != nil {
		return marketdata.NewsItem{}, fmt.Errorf("read news: %w", err)
	}
	return n, nil
}

func packListing(symbols []string) []byte {
	p := binary.AppendUvarint([]byte{recordVersion}, uint64(len(symbols)))
	for _, s := range symbols {
		p = appendText(p, s)
	}
	return p
}

func unpackListing(data string) ([]string, error) {
	r := recordReader{data: data}
	r.version()
	var symbols []string
	for left := r.length(); left > 0; left-- {
		symbols = append(symbols, r.text())
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("read listing: %w", err)
	}
	return symbols, nil
}

func appendText(p []byte, s string) []byte {
	p = binary.AppendUvarint(p, uint64(len(s)))
	return append(p, s...)
}

// recordReader reads the fields of a record. After a fault it returns zero values.
type recordReader struct {
	data string
	bad  bool
}

func (r *recordReader) take(n int) string {
	if r.bad || n > len(r.data) {
		r.bad = true
		return ""
	}
	s := r.data[:n]
	r.data = r.data[n:]
	return s
}

func (r *recordReader) version() {
	if r.byte() != recordVersion {
		r.bad = true
	}
}

func (r *recordReader) byte() byte {
	if s := r.take(1); s != "" {
		return s[0]
	}
	return 0
}

func (r *recordReader) uint32() uint32 {
	s := r.take(4)
	if s == "" {
		return 0
	}
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func (r *recordReader) int64() int64 {
	low := r.uint32()
	return int64(uint64(low) | uint64(r.uint32())<<32)
}

func (r *recordReader) float() float64 { return math.Float64frombits(uint64(r.int64())) }

func (r *recordReader) bar() marketdata.Bar {
	open := r.int64()
	return marketdata.Bar{OpenTime: open, CloseTime: open + int64(r.uint32()),
		Open: r.float(), High: r.float(), Low: r.float(), Close: r.float(), Volume: r.float()}
}

// length reads a count of items of at least a byte each.
func (r *recordReader) length() int {
	var n uint64
	for shift := 0; ; shift += 7 {
		c := r.byte()
		if r.bad || shift > 28 {
			r.bad = true
			return 0
		}
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			break
		}
	}
	if n > uint64(len(r.data)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *recordReader) text() string { return r.take(r.length()) }

func (r *recordReader) end() error {
	if r.bad || r.data != "" {
		return errRecord
	}
	return nil
}
