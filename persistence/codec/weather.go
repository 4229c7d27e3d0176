package codec

import (
	"github.com/agentsignal/agentsignal/actors/signal"
)

// The weather signal of a run is part of the record of its signal, so that neither is ever
// stored without the other. The fields that the actor of an open signal needs come first: the
// hash of open signals has only these.

// appendOutlook appends the fields of the weather that an open signal needs.
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

// appendWeather appends the fields that only lists show.
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

// DecodeWeatherBehind reads the weather of a record after DecodeListed.
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
