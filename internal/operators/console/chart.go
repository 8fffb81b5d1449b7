package console

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/operators/api"
)

// chart is the rates of the last minutes as curves, in a picture of chartWidth times
// chartHeight that is stretched to its place, and as numbers.
type chart struct {
	Decisions, Denials string      // points of the curves
	Area               string      // points of the area below the denials
	Ticks              []float64   // labels of the axis, from the top
	Minutes            []api.Rates // means of twelve rates, the newest first
}

const (
	chartWidth  = 900 // a second each
	chartHeight = 200
)

// draw makes a chart of rates, the oldest first, up to now.
func draw(rates []api.Rates, now time.Time) (c chart) {
	top, last := 1.0, ""
	for _, r := range rates {
		top = max(top, roundUp(r.Decisions), roundUp(r.Denials))
	}
	c.Ticks = []float64{top, top / 2, 0}
	for _, r := range rates {
		if x := chartWidth - now.Sub(r.At).Seconds(); x >= 0 {
			c.Decisions += point(x, r.Decisions/top)
			c.Denials += point(x, r.Denials/top)
			last = point(x, 0)
			c.Area = cmp.Or(c.Area, last)
		}
	}
	c.Area += c.Denials + last
	for chunk := range slices.Chunk(rates, 12) {
		var m api.Rates
		for _, r := range chunk {
			m.At, m.Decisions, m.Denials = r.At, m.Decisions+r.Decisions/float64(len(chunk)), m.Denials+r.Denials/float64(len(chunk))
		}
		c.Minutes = slices.Insert(c.Minutes, 0, m)
	}
	return c
}

// point is one of a curve, at a part of the height.
func point(x, part float64) string { return fmt.Sprintf("%.1f,%.1f ", x, chartHeight*(1-part)) }

// roundUp returns the next number above n, and 1, that is 1, 2 or 5 times a power of ten.
func roundUp(n float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(n, 1))))
	for _, f := range []float64{1, 2, 5} {
		if n <= f*power {
			return f * power
		}
	}
	return 10 * power
}
