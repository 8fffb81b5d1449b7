package rls

import "testing"

func TestHeaders(t *testing.T) {
	names := []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
	headers := func(limit, remaining, reset string) [3]string { return [3]string{limit, remaining, reset} }
	none := [3]string{}
	for _, tc := range []struct {
		name     string
		requests []string
		want     [3]string // of the last request
		quotas   bool      // QUOTA_MODE
	}{
		{"admitted", []string{d("user", "a")}, headers("2", "1", "30"), false},
		{"no limit", []string{d("stranger", "a") + d("user", "root") + d("user", "friend")}, none, false},
		{"least remaining", []string{d("path", "/") + d("user", "a") + d("tokens", "t")}, headers("2", "1", "30"), false},
		{"first of equals", []string{d("path", "/"), d("path", "/") + d("user", "a")}, headers("3", "1", "30"), false},
		{"denied before least remaining", []string{d("user", "a") + "hits_addend: 2", d("tried", "a") + d("user", "a") + d("path", "/")}, headers("2", "0", "30"), false},
		{"last of the denied", []string{d("path", "/") + "hits_addend: 3", d("path", "/") + d("nobody", "a")}, headers("0", "0", "43230"), false},
		{"a quota denies nothing by itself", []string{d("model", "a"), d("tried", "a") + d("model", "a") + d("model", "b")}, headers("1", "0", "1"), false},
		{"with QUOTA_MODE no limit does", []string{d("path", "/") + d("user", "a") + "hits_addend: 4"}, headers("3", "0", "30"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opts := options(t, rules)
			opts.QuotaMode = tc.quotas
			opts.ResponseHeaders = Headers{Limit: names[0], Remaining: names[1], Reset: names[2]}
			conn := serve(t, opts.service())
			var got [3]string
			for _, request := range tc.requests {
				response, err := ask(t, conn, "domain: 'api' "+request)
				must(t, err)
				got = none
				for i, h := range response.GetResponseHeadersToAdd() {
					if h.GetKey() != names[i] {
						t.Errorf("header %d is %q, want %q", i, h.GetKey(), names[i])
					}
					got[i] = h.GetValue()
				}
			}
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
