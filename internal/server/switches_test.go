package server

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// A switch that was left on is shown in the log and the status page.
func TestSwitchesAreTold(t *testing.T) {
	const shadow, quota = "SHADOW_MODE is on: no request is denied", "QUOTA_MODE is on: a request is denied only if all its limits are exceeded"
	tests := []struct {
		args []string
		want []string
	}{
		{nil, nil},
		{[]string{"--shadow-mode"}, []string{shadow}},
		{[]string{"--quota-mode"}, []string{quota}},
		{[]string{"--shadow-mode", "--quota-mode"}, []string{shadow, quota}},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var log bytes.Buffer
			opts := options(t, &log, append(tt.args, "--config="+directory(t, limited(3)))...)
			a := testenv.Must(New(opts))(t)
			if err := a.stop(); err != nil {
				t.Error(err)
			}
			if got := a.status().Notes; !slices.Equal(got, tt.want) {
				t.Errorf("the status page notes %q, want %q", got, tt.want)
			}
			for _, note := range []string{shadow, quota} {
				if got, want := strings.Contains(log.String(), `level=WARN msg="a switch changes every response" effect="`+note+`"`), slices.Contains(tt.want, note); got != want {
					t.Errorf("the log tells %q: %v, want %v:\n%s", note, got, want, log.String())
				}
			}
		})
	}
}
