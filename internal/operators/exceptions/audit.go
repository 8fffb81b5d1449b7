package exceptions

import (
	"log/slog"
	"strings"

	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// audited returns what the audit log says of e, and of who did something with it.
func audited(e *plan.Exception, who ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{
		slog.Bool("audit", true), plain("id", e.ID), plain("domain", e.Domain), plain("descriptor", spell(e.Entries)),
		slog.String("effect", e.What()), slog.Time("until", e.Until), plain("reason", e.Reason),
	}, who...)
}

// plain is a text of others.
func plain(key, value string) slog.Attr { return slog.String(key, plaintext.Line(value)) }

// spell returns entries as people write them.
func spell(entries []limiter.Entry) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(e.Key + "=" + e.Value)
	}
	return b.String()
}
