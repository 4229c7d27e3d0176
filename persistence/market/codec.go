package market

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

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

	tickMissed = 1 // ticks before it may be missing, since a time that follows

	numberRaw   = 0xff // the 8 bytes of a number follow
	maxDigits   = 999_999_999_999_999
	maxDecimals = len(powersOfTen) - 1
)

// powersOfTen are those that a float64 has exactly.
var powersOfTen = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

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
	n.Symbols = r.texts()
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
	symbols := r.texts()
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("read listing: %w", err)
	}
	return symbols, nil
}

// packRound packs ticks: the sources that occur, the time of the first tick, and of each tick the asset,
// the number of its source, its time after that of the first, price and volume.
func packRound(ticks []marketdata.AssetTick) []byte {
	var sources []string
	for i := range ticks {
		if !slices.Contains(sources, ticks[i].Source) {
			sources = append(sources, ticks[i].Source)
		}
	}
	p := packListing(sources)
	base := ticks[0].Time
	p = binary.AppendVarint(p, base)
	p = binary.AppendUvarint(p, uint64(len(ticks)))
	for i := range ticks {
		t := &ticks[i]
		p = appendText(p, t.Asset)
		kind := uint64(slices.Index(sources, t.Source)) << 1
		if t.Missed != 0 {
			kind |= tickMissed
		}
		p = binary.AppendUvarint(p, kind)
		p = binary.AppendVarint(p, t.Time-base)
		p = appendNumber(p, t.Price)
		p = appendNumber(p, t.Volume)
		if t.Missed != 0 {
			p = binary.AppendVarint(p, t.Missed-base)
		}
	}
	return p
}

func unpackRound(data string) ([]marketdata.AssetTick, error) {
	r := readRecord(data)
	sources := r.texts()
	base := r.Varint()
	ticks := make([]marketdata.AssetTick, r.length())
	for i := range ticks {
		t := &ticks[i]
		t.Asset = r.text()
		kind := r.Uvarint()
		t.Time = base + r.Varint()
		t.Price, t.Volume = r.number(), r.number()
		if kind&tickMissed != 0 {
			t.Missed = base + r.Varint()
		}
		if kind>>1 >= uint64(len(sources)) {
			r.Fail(errRecord)
			break
		}
		t.Source = sources[kind>>1]
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("read round of ticks: %w", err)
	}
	return ticks, nil
}

// appendNumber appends the digits of v as an integer and how many of them are decimals, so that most
// prices take 5 bytes. Up to 22 decimals and 15 digits the quotient is v itself, since both numbers are exact.
// Other numbers follow numberRaw as they are.
func appendNumber(p []byte, v float64) []byte {
	var text [32]byte
	digits := strconv.AppendFloat(text[:0], v, 'f', -1, 64)
	decimals := 0
	if point := bytes.IndexByte(digits, '.'); point >= 0 {
		decimals = len(digits) - point - 1
		digits = append(digits[:point], digits[point+1:]...)
	}
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil || n > maxDigits || decimals > maxDecimals {
		p = append(p, numberRaw)
		return binary.LittleEndian.AppendUint64(p, math.Float64bits(v))
	}
	return binary.AppendUvarint(append(p, byte(decimals)), n)
}

// number is the inverse of appendNumber.
func (r *recordReader) number() float64 {
	decimals := r.Byte()
	if decimals == numberRaw {
		return r.float()
	}
	n := r.Uvarint()
	if n > maxDigits || int(decimals) > maxDecimals {
		r.Fail(errRecord)
		return 0
	}
	return float64(n) / powersOfTen[decimals]
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

func (r *recordReader) texts() []string {
	var texts []string
	for left := r.length(); left > 0; left-- {
		texts = append(texts, r.text())
	}
	return texts
}

func (r *recordReader) end() error {
	if r.Err != nil || len(r.B) > 0 {
		return errRecord
	}
	return nil
}
