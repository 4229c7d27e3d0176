package market

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/codec"
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
	r := readRecord(data)
	flags := r.Byte()
	b := marketdata.AssetBar{Given: flags&barGiven != 0, Bar: r.bar()}
	b.Flat = flags&barFlat != 0
	if flags&^(barFlat|barGiven) != 0 {
		r.Fail(errRecord)
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
	r := readRecord(data)
	a := marketdata.Asset{Symbol: r.text(), Class: r.text(), Source: r.text(), TickSize: r.float(), Speed: r.int64()}
	a.AlwaysOpen = r.Byte() == 1
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
	r := readRecord(data)
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
	r := readRecord(data)
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
	r := readRecord(data)
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
type recordReader struct{ codec.Decoder }

// readRecord returns a reader of the fields after the version.
func readRecord(data string) recordReader {
	r := recordReader{codec.NewDecoder([]byte(data))}
	if r.Byte() != recordVersion {
		r.Fail(errRecord)
	}
	return r
}

func (r *recordReader) uint32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *recordReader) int64() int64 {
	if b := r.Take(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func (r *recordReader) float() float64 { return math.Float64frombits(uint64(r.int64())) }

func (r *recordReader) bar() marketdata.Bar {
	open := r.int64()
	return marketdata.Bar{OpenTime: open, CloseTime: open + int64(r.uint32()),
		Open: r.float(), High: r.float(), Low: r.float(), Close: r.float(), Volume: r.float()}
}

// length reads a count of items of at least a byte each.
func (r *recordReader) length() int {
	n := r.Uvarint()
	if n > uint64(len(r.B)) {
		r.Fail(errRecord)
		return 0
	}
	return int(n)
}

func (r *recordReader) text() string { return string(r.Take(uint64(r.length()))) }

func (r *recordReader) end() error {
	if r.Err != nil || len(r.B) > 0 {
		return errRecord
	}
	return nil
}
