package replicas

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	"weir/internal/operators/denials"
)

// Report is what a server says of itself.
type Report struct {
	Denials denials.Summary `json:"denials"`
	// Uses is how often each exception was applied, by its ID.
	Uses map[string]uint64 `json:"uses"`
}

const (
	// maxReport bounds a report in bytes, and maxText what it may hold uncompressed:
	// whatever else uses the Redis may write there.
	maxReport = 256 << 10
	maxText   = 16 << 20
	// Keys is how many keys of a limit a report has if they fit. Each that is left
	// out adds to the error of all, see denials.Merge.
	Keys = 64
)

// encode returns the report that report makes, with fewer keys if it is too large.
func encode(report func(keys int) Report) ([]byte, error) {
	for keys := Keys; ; keys /= 2 {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err == nil {
			err = json.NewEncoder(w).Encode(report(keys))
		}
		if err == nil {
			err = w.Close()
		}
		switch {
		case err != nil:
			return nil, err
		case b.Len() <= maxReport:
			return b.Bytes(), nil
		case keys == 0:
			return nil, fmt.Errorf("the report of this server takes %d bytes, more than the %d that are allowed", b.Len(), maxReport)
		}
	}
}

// decode reads a report.
func decode(data []byte) (r Report, err error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return Report{}, err
	}
	text, err := io.ReadAll(io.LimitReader(unpacked, maxText+1))
	switch {
	case err != nil:
		return Report{}, err
	case len(text) > maxText:
		return Report{}, fmt.Errorf("it holds more than %d bytes", maxText)
	}
	return r, json.Unmarshal(text, &r)
}

// Sum returns how often each exception was applied here and on other servers.
func Sum(here map[string]uint64, others []Report) map[string]uint64 {
	sum := maps.Clone(here)
	if sum == nil {
		sum = make(map[string]uint64)
	}
	for _, r := range others {
		for id, n := range r.Uses {
			sum[id] += n
		}
	}
	return sum
}
