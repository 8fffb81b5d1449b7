package denials

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Merge returns what several processes saw denied: the sums of their numbers, and of
// their errors. What one of them does not list may have been denied there as often as it
// says, and adds so much to the error. It shows so many keys of a limit at most.
func Merge(keys int, summaries ...Summary) Summary {
	var merged Summary
	var minutes, hours []Window
	for _, s := range summaries {
		if s.At.After(merged.At) {
			merged.At = s.At
		}
		minutes, hours = append(minutes, s.Minute), append(hours, s.Hour)
		merged.Last = append(merged.Last, s.Last...)
	}
	merged.Minute, merged.Hour = mergeWindows(keys, minutes), mergeWindows(keys, hours)
	slices.SortStableFunc(merged.Last, func(a, b Event) int { return b.At.Compare(a.At) })
	merged.Last = merged.Last[:min(len(merged.Last), MaxLast)]
	return merged
}

// mergeWindows begins when the first of the windows does.
func mergeWindows(keys int, windows []Window) Window {
	merged := Window{Limits: []Limit{}}
	byLimit := make(map[string][]*Limit) // one for each window, nil where it is not listed
	var names []string
	for i := range windows {
		w := &windows[i]
		merged.OthersAtMost += w.OthersAtMost
		merged.From = earlier(merged.From, w.From)
		for j := range w.Limits {
			name := w.Limits[j].name()
			if byLimit[name] == nil {
				names = append(names, name)
				byLimit[name] = make([]*Limit, len(windows))
			}
			byLimit[name][i] = &w.Limits[j]
		}
	}
	for _, name := range names {
		merged.Limits = append(merged.Limits, mergeLimits(keys, windows, byLimit[name]))
	}
	merged.cut()
	return merged
}

// mergeLimits merges what the windows say of one limit.
func mergeLimits(keys int, windows []Window, limits []*Limit) (merged Limit) {
	byKey := make(map[string]*Key)
	var names []string
	for i, l := range limits {
		if l == nil {
			most := windows[i].OthersAtMost
			merged.Denied, merged.Error, merged.OthersAtMost = merged.Denied+most, merged.Error+most, merged.OthersAtMost+most
			continue
		}
		place := cmp.Or(merged.Place, l.Place)
		merged.Source = l.Source
		merged.Place = place
		merged.Denied, merged.Error, merged.OthersAtMost = merged.Denied+l.Denied, merged.Error+l.Error, merged.OthersAtMost+l.OthersAtMost
		for _, k := range l.Keys {
			name := k.name()
			known := byKey[name]
			if known == nil {
				known = &Key{Descriptor: k.Descriptor}
				byKey[name], names = known, append(names, name)
			}
			// What it may have where it is not listed is added for all, and taken off here.
			known.Denied, known.Error = known.Denied+k.Denied-l.OthersAtMost, known.Error+k.Error-l.OthersAtMost
			known.First, known.Last = earlier(known.First, k.First), later(known.Last, k.Last)
		}
	}
	for _, name := range names {
		k := byKey[name]
		k.Denied, k.Error = k.Denied+merged.OthersAtMost, k.Error+merged.OthersAtMost
		merged.Keys = append(merged.Keys, *k)
	}
	slices.SortStableFunc(merged.Keys, func(a, b Key) int { return cmp.Compare(b.Denied, a.Denied) })
	if len(merged.Keys) > keys {
		merged.OthersAtMost = max(merged.OthersAtMost, merged.Keys[keys].Denied)
		merged.Keys = merged.Keys[:keys]
	}
	return merged
}

// name tells limits apart. Where rules are written, and how much they allow, may differ
// while replicas load new ones.
func (l *Limit) name() string {
	return spell([]any{l.Domain, l.Rule, l.Limit, l.Shadow})
}

func (k *Key) name() string { return spell(k.Descriptor) }

// spell returns v as JSON, which it can be.
func spell(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
