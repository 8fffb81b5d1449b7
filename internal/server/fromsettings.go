package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/settings"
)

// The functions in this file turn settings into options for other packages. Commands use them, too.

// RuleOptions returns the options for loading rules.
func RuleOptions(s settings.Reading) descriptors.Options {
	return descriptors.Options{MergeDomains: s.MergeDomainConfig, CalendarMonths: s.CalendarMonths}
}

// ReadRules reads the rule files that s names. skipped has the paths of files that are not rule
// files; see descriptors.WhySkipped.
func ReadRules(s settings.RulesPath) (found []descriptors.File, skipped []string, err error) {
	if s.WithSiblings() {
		return descriptors.ReadWithSiblings(s.Path())
	}
	return descriptors.ReadFiles(s.Path())
}

// PlanOptions returns the options for decisions, without Keys, Exceptions and Assigned.
func PlanOptions(r settings.Reading, c settings.Charging, m settings.Modes) plan.Options {
	charges := map[settings.Word]limiter.Charge{"": limiter.Auto, "true": limiter.Admitted, "false": limiter.Always}
	return plan.Options{Charge: charges[c.StopWhenOverLimit], CalendarMonths: r.CalendarMonths, ShadowMode: m.ShadowMode, QuotaMode: m.QuotaMode, GroupKeys: m.QuotaGroupKeys}
}

// settingsHash returns a short hash of the settings that change decisions.
func settingsHash(s settings.Settings) string {
	return shortHash(fmt.Append(nil, s.Rules.Reading, s.Answers.Modes, s.Answers.MaxConcurrentRequests, s.Store.Keys, s.Store.Charging,
		s.Failure, s.Metrics.NearLimitRatio, s.Redis.UsePerSecond, s.Redis.DenyCharged))
}

// shortHash returns a short hash of texts, to compare servers. It sorts texts, so their order has no effect.
func shortHash(texts ...[]byte) string {
	slices.SortFunc(texts, bytes.Compare)
	sum := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(sum, "%d ", len(text))
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:4])
}

// NewKeys returns the spelling of counters' keys, which have hash tags if cluster is true.
func NewKeys(s settings.Keys, cluster bool) (limiter.Keys, error) {
	keys := limiter.Keys{Prefix: s.CacheKeyPrefix, Digests: s.CacheKeyHashValues, Cluster: cluster}
	if err := keys.Check(); err != nil {
		return limiter.Keys{}, fmt.Errorf("CACHE_KEY_PREFIX: %w", err)
	}
	return keys, nil
}

// FailureMode returns the failure mode for limits whose rules set none. s must have been checked.
func FailureMode(s settings.Failure) limiter.FailureMode {
	return limiter.FailureError + limiter.FailureMode(slices.Index(limiter.FailureModeNames(), string(s.Mode)))
}
