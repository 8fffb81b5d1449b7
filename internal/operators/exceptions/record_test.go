package exceptions

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// FuzzRecord wants back what was written, any bytes included.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{"alice", "\xff\xfe", "a\x00b", "\u2028<script>", `{"base64":"AA=="}`, "\ufffd", "", strings.Repeat("ö", 2000), "\x1b[31m"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		want := &plan.Exception{
			ID: "x", Domain: "d" + a, Entries: []limiter.Entry{{Key: a + b, Value: b}, {Key: b, Value: a}}, Effect: plan.Amount, Factor: 2.5,
			Created: time.Unix(1_700_000_000, 123456789).UTC(), Until: time.Unix(1_800_000_000, 1).UTC(), By: a, Reason: b,
		}
		r, err := newRecord(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.read()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v from %s, want %+v", got, err, r.Body, want)
		}
	})
}

// What a newer version wrote, or anybody else, is not guessed at.
func TestUnreadableRecords(t *testing.T) {
	const rest = `"domain":"api","entries":[["user","a"]],"until":"2027-01-01T00:00:00Z"`
	for body, want := range map[string]string{
		`{"format":2,"effect":"allow",` + rest + `}`:            "it has format 2, and this version reads format 1",
		`{"format":1,"effect":"slow",` + rest + `}`:             `undefined effect "slow"`,
		`{"format":1,"effect":"amount",` + rest + `}`:           "undefined factor 0",
		`{"format":1,"effect":"allow","domain":"api"}`:          "its domain, its entries or its end are missing",
		`{"format":1,"effect":"allow","domain":{"base64":"?"}}`: "cannot unmarshal object",
		`nonsense`: "invalid character",
		``:         "unexpected end",
	} {
		r := Record{"x", []byte(body)}
		if e, err := r.read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %s", body, e, err, want)
		}
	}
}
