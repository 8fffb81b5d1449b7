package limiter

import "testing"

func TestNewLabelSet(t *testing.T) {
	for levels, want := range map[string]LabelSet{
		"":                         {Domain: "api"},
		"user\x00":                 {Domain: "api", Key1: "user"},
		"user\x00path_/v1.2\x00":   {Domain: "api", Key1: "user", Key2: "path_/v1.2"},
		"a\x00b\x00c_1\x00":        {Domain: "api", Key1: "a", Key2: "b", More: "c_1"},
		"a\x00b\x00c_1\x00d_2\x00": {Domain: "api", Key1: "a", Key2: "b", More: "c_1.d_2"},
	} {
		if got := NewLabelSet("api", levels); got != want {
			t.Errorf("%q: got %+v, want %+v", levels, got, want)
		}
	}
}

func TestSeries(t *testing.T) {
	for _, want := range []LabelSet{
		{Domain: "api", Key1: "user", Rule: "user", Limit: "minute"},
		{Domain: "api", Key1: "a", Key2: "b", More: "c.d", Rule: "a|b|c|d", Limit: "burst"},
	} {
		s := want.Series()
		if got := s.Labels(); got != want {
			t.Errorf("%q spells %+v, want %+v", s, got, want)
		}
		if got := s.Domain(); got != want.Domain {
			t.Errorf("%q: got domain %q, want %q", s, got, want.Domain)
		}
		want.Limit = ""
		if got := s.Rule().Labels(); got != want {
			t.Errorf("the rule of %q is %+v, want %+v", s, got, want)
		}
		want.Rule = ""
		levels := s.Levels()
		if got := levels.Labels(); got != want || levels != want.Series() || levels.Levels() != levels {
			t.Errorf("the levels of %q are %q, %+v, want %+v", s, levels, got, want)
		}
	}
}
