package simulated

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// checkpointVersion is the first byte of a checkpoint.
const checkpointVersion = 1

// NoCheckpoint is what a store keeps to forget a checkpoint: Open begins.
var NoCheckpoint = []byte{0}

// pcgBytes is the length of the state of a generator.
const pcgBytes = 20

// Checkpoint returns the state from which another Open can continue.
func (s *Market) Checkpoint() []byte {
	p := []byte{checkpointVersion}
	put := func(values ...uint64) {
		for _, v := range values {
			p = binary.LittleEndian.AppendUint64(p, v)
		}
	}
	float := func(values ...float64) {
		for _, v := range values {
			put(math.Float64bits(v))
		}
	}
	put(uint64(s.grid.Speed), s.seed, uint64(s.start), uint64(s.at), uint64(len(s.assets)))
	for _, a := range s.assets {
		p = append(p, byte(len(a.k.Symbol)))
		p = append(p, a.k.Symbol...)
		for _, g := range []*rand.PCG{a.path.own, a.path.class, a.news.own} {
			p, _ = g.AppendBinary(p) // never fails
		}
		float(a.path.price, a.path.wave, a.path.left)
		put(uint64(a.path.regime), uint64(a.news.next), uint64(a.news.count), uint64(a.bars.finest))
		float(a.last.Price, a.last.Volume)
		put(uint64(a.last.Time))
		for _, b := range a.bars.part {
			put(uint64(b.OpenTime), uint64(b.CloseTime))
			float(b.Open, b.High, b.Low, b.Close, b.Volume)
		}
	}
	return p
}

// restore restores a checkpoint with its seed. It returns false, and leaves s unchanged, if the
// checkpoint is not one of this market.
func (s *Market) restore(checkpoint []byte) bool {
	r := checkpointReader{data: checkpoint}
	if version := r.take(1); version == nil || version[0] != checkpointVersion || r.int64() != s.grid.Speed {
		return false
	}
	restored := Market{grid: s.grid, known: s.known, Weather: s.Weather}
	restored.seed, restored.start, restored.at = r.uint64(), r.int64(), r.int64()
	if r.uint64() != uint64(len(s.known)) || restored.at < 0 || restored.at%minuteStep != 0 {
		return false
	}
	for _, k := range s.known {
		length := r.take(1)
		if length == nil || string(r.take(int(length[0]))) != k.Symbol {
			return false
		}
		a := &simulatedAsset{k: k, path: fixedPath(k), news: &newswire{k: k}, bars: assembler{grid: s.grid}}
		a.path.own, a.path.class, a.news.own = r.generator(), r.generator(), r.generator()
		a.path.price, a.path.wave, a.path.left = r.float(), r.float(), r.float()
		a.path.regime, a.news.next, a.news.count, a.bars.finest = int(r.int64()), r.int64(), r.int64(), int(r.int64())
		a.last = marketdata.Tick{Price: r.float(), Volume: r.float(), Time: r.int64()}
		for i := range a.bars.part {
			a.bars.part[i] = marketdata.Bar{OpenTime: r.int64(), CloseTime: r.int64(),
				Open: r.float(), High: r.float(), Low: r.float(), Close: r.float(), Volume: r.float()}
		}
		sum := a.path.price + a.path.wave + a.path.left
		if r.bad || a.path.regime < 0 || a.path.regime >= regimes ||
			a.bars.finest < 0 || a.bars.finest >= prices.Timeframes ||
			math.IsNaN(sum) || math.IsInf(sum, 0) {
			return false
		}
		restored.assets = append(restored.assets, a)
	}
	if r.bad || len(r.data) > 0 {
		return false
	}
	*s = restored
	return true
}

// checkpointReader decodes a checkpoint. After an error it returns zero values.
type checkpointReader struct {
	data []byte
	bad  bool
}

func (r *checkpointReader) take(n int) []byte {
	if r.bad || n > len(r.data) {
		r.bad = true
		return nil
	}
	p := r.data[:n]
	r.data = r.data[n:]
	return p
}

func (r *checkpointReader) uint64() uint64 {
	p := r.take(8)
	if p == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(p)
}

func (r *checkpointReader) int64() int64 { return int64(r.uint64()) }

func (r *checkpointReader) float() float64 { return math.Float64frombits(r.uint64()) }

func (r *checkpointReader) generator() *rand.PCG {
	var g rand.PCG
	if err := g.UnmarshalBinary(r.take(pcgBytes)); err != nil {
		r.bad = true
	}
	return &g
}
