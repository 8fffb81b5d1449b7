package descriptors

import (
	"cmp"

	"weir/internal/limiter"
)

// Words say how a limit counts, in the words of rule files, defaults included.
type Words struct {
	Period    string // such as minute, or 5 minutes
	Algorithm string
	TimeZone  string // "" unless by a calendar
	Charge    string // "" if what is denied is never counted
	DenyFor   string // such as 10m; "" without bans
	Mode      string // enforced, shadow_mode or quota_mode
	// FailureMode is error, allow, deny or local.
	FailureMode string
}

// WordsFor returns the words for a limit that is not unlimited. charge and
// failure are those of limits that do not say it themselves.
func WordsFor(l *limiter.Limit, charge limiter.Charge, failure limiter.FailureMode) Words {
	w := Words{
		Period:    l.Per(),
		Algorithm: l.Algorithm.String(),
		Mode:      ModeWord(l.Mode),

		FailureMode: cmp.Or(l.FailureMode, failure, limiter.FailureError).String(),
	}
	if l.Algorithm.Takes(limiter.ChargeOption) {
		w.Charge = charges[cmp.Or(l.Charge, charge, limiter.Auto)-limiter.Auto]
	}
	if l.Algorithm == limiter.ByCalendar {
		w.TimeZone = cmp.Or(l.TimeZone, "UTC")
	}
	if l.DenyFor > 0 {
		w.DenyFor = spellDuration(l.DenyFor)
	}
	return w
}

// ModeWord names a mode by the field that asks for it.
func ModeWord(m limiter.Mode) string {
	switch m {
	case limiter.Shadow:
		return "shadow_mode"
	case limiter.Quota:
		return "quota_mode"
	default:
		return "enforced"
	}
}
