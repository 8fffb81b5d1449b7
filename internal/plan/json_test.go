package plan

import (
	"encoding/json"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// FuzzBytes encodes arbitrary bytes as JSON and decodes them.
func FuzzBytes(f *testing.F) {
	f.Add("api", "user", "alice")
	f.Add("\xff", "\x00\x1b[31m", "\xc3\x28<script>")
	f.Add("", "", "\ufffd")
	f.Fuzz(func(t *testing.T, domain, key, value string) {
		text := testenv.Must(json.Marshal(NewJSONDescriptor(domain, []limiter.Entry{{Key: key, Value: value}})))(t)
		var d JSONDescriptor
		testenv.OK(t, json.Unmarshal(text, &d))
		gotDomain, got := d.Bytes()
		if gotDomain != domain || len(got) != 1 || got[0] != (limiter.Entry{Key: key, Value: value}) {
			t.Errorf("%s: got %q %q", text, gotDomain, got)
		}
	})
}

func TestBase64Counts(t *testing.T) {
	var d JSONDescriptor
	testenv.OK(t, json.Unmarshal([]byte(`{"domain":"shown","domain_base64":"/w==","entries":[{"key":"k","value_base64":"gA=="}]}`), &d))
	if domain, entries := d.Bytes(); domain != "\xff" || entries[0] != (limiter.Entry{Key: "k", Value: "\x80"}) {
		t.Errorf("got %q %q", domain, entries)
	}
}
