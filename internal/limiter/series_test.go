package limiter

import (
	"testing"

	"weir/internal/testenv"
)

func TestNewLabelSet(t *testing.T) {
	for levels, want := range map[string]LabelSet{
		"":                         {Domain: "api"},
		"user\x00":                 {Domain: "api", Key1: "user"},
		"user\x00path_/v1.2\x00":   {Domain: "api", Key1: "user", Key2: "path_/v1.2"},
		"a\x00b\x00c_1\x00":        {Domain: "api", Key1: "a", Key2: "b", More: "c_1"},
		"a\x00b\x00c_1\x00d_2\x00": {Domain: "api", Key1: "a", Key2: "b", More: "c_1.d_2"},
	} {
		testenv.Equal(t, NewLabelSet("api", levels), want, "%q", levels)
	}
}

func TestSeries(t *testing.T) {
	for _, want := range []LabelSet{
		{Domain: "api", Key1: "user", Rule: "user", Limit: "minute"},
		{Domain: "api", Key1: "a", Key2: "b", More: "c.d", Rule: "a|b|c|d", Limit: "burst"},
	} {
		s := want.Series()
		testenv.Equal(t, s.Labels(), want, "%q spells", s)
		testenv.Equal(t, s.Domain(), want.Domain, "%q: got domain", s)
		want.Limit = ""
		testenv.Equal(t, s.Rule().Labels(), want, "the rule of %q", s)
		want.Rule = ""
		levels := s.Levels()
		if got := levels.Labels(); got != want || levels != want.Series() || levels.Levels() != levels {
			t.Errorf("the levels of %q are %q, %+v, want %+v", s, levels, got, want)
		}
	}
}
