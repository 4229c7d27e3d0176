package codec

import (
	"github.com/agentsignal/agentsignal/actors/signal"
)

// The Weather signal of a run is part of the record of its signal: two records that
// are one can never be stored apart. What the actor of an open signal goes by stands
// in front, as part of what the hash of open signals has, too.

// appendOutlook adds what an open signal needs of its weather.
func appendOutlook(b []byte, w *signal.Outlook) []byte {
	b = AppendText(b, w.Commodity)
	b = AppendText(b, w.Region)
	return appendFloat(b, w.Likelihood)
}

func decodeOutlook(d *Decoder) *signal.Outlook {
	w := &signal.Outlook{Commodity: d.Text(), Region: d.Text()}
	w.Likelihood = d.float()
	return w
}

// appendWeather adds what lists show beside.
func appendWeather(b []byte, w *signal.Outlook) []byte {
	b = AppendText(b, w.Event.Type)
	b = AppendText(b, w.Event.Severity)
	b = AppendString(b, w.Event.Location)
	b = AppendString(b, w.Event.ForecastDate)
	b = appendFloat(b, w.Event.Deviation)
	return AppendString(b, w.ExpectedImpact)
}

func decodeWeather(d *Decoder, w *signal.Outlook) {
	w.Event.Type = d.Text()
	w.Event.Severity = d.Text()
	w.Event.Location = string(d.TextBytes(d.Byte()))
	w.Event.ForecastDate = string(d.TextBytes(d.Byte()))
	w.Event.Deviation = d.float()
	w.ExpectedImpact = string(d.TextBytes(d.Byte()))
}

// DecodeWeatherBehind reads the weather of a record of which DecodeListed has read
// the first part.
func DecodeWeatherBehind(d *Decoder, flags byte) *signal.Outlook {
	d.StoredID() // the run
	d.Text()     // timeframe and risk
	d.Text()
	if flags&signalExpires != 0 {
		d.Varint()
	}
	w := decodeOutlook(d)
	decodeWeather(d, w)
	return w
}
