package operators

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// FuzzBytes sends any bytes as JSON.
func FuzzBytes(f *testing.F) {
	f.Add("api", "user", "alice")
	f.Add("\xff", "\x00\x1b[31m", "\xc3\x28<script>")
	f.Add("", "", "\ufffd")
	f.Fuzz(func(t *testing.T, domain, key, value string) {
		text := testenv.Must(json.Marshal(NewDescriptor(domain, []limiter.Entry{{Key: key, Value: value}})))(t)
		var d Descriptor
		testenv.OK(t, json.Unmarshal(text, &d))
		gotDomain, got, err := d.Bytes()
		if err != nil || gotDomain != domain || len(got) != 1 || got[0] != (limiter.Entry{Key: key, Value: value}) {
			t.Errorf("%s: got %q %q (error: %v)", text, gotDomain, got, err)
		}
	})
}

func TestBase64Counts(t *testing.T) {
	d := Descriptor{Domain: "shown", DomainBase64: "/w==", Entries: []Entry{{Key: "k", ValueBase64: "gA=="}}}
	domain, entries, err := d.Bytes()
	if err != nil || domain != "\xff" || entries[0] != (limiter.Entry{Key: "k", Value: "\x80"}) {
		t.Errorf("got %q %q (error: %v)", domain, entries, err)
	}
	for want, d := range map[string]Descriptor{
		"domain_base64 is not valid base64":            {DomainBase64: "_w=="},
		"entries[1]: key_base64 is not valid base64":   {Entries: []Entry{{}, {KeyBase64: "A"}}},
		"entries[0]: value_base64 is not valid base64": {Entries: []Entry{{ValueBase64: "gB=="}}}, // with bits that are not used
	} {
		if _, _, err := d.Bytes(); !errors.Is(err, ErrBadRequest) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

func TestErrorf(t *testing.T) {
	err := Errorf(ErrUnavailable, "redis: %w", io.EOF)
	if err.Error() != "redis: EOF" || !errors.Is(err, ErrUnavailable) || !errors.Is(err, io.EOF) || errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
