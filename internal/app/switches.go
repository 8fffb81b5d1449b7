package app

import "weir/internal/settings"

// switchedOn tells of the switches that change the answer to every request and
// are on: left on by mistake, they would go unnoticed.
func switchedOn(s settings.Answers) (notes []string) {
	if s.ShadowMode {
		notes = append(notes, "SHADOW_MODE is on: no request is denied")
	}
	if s.QuotaMode {
		notes = append(notes, "QUOTA_MODE is on: a request is denied only if all its limits are over")
	}
	return notes
}
