package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

const threeAYear = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: year, requests_per_unit: 3}\n"

// TestSteerStatus asks a real server how it is.
func TestSteerStatus(t *testing.T) {
	o := operate(t, threeAYear)
	o.denyAlice()
	o.weir(0, "status", `health +OK\n`, `rules +1 rule in 1 domain from \S+\n +loaded at .* ago\), files: 1\n`)
	o.weir(0, "status --output json", `"health": "OK",`)
}

// TestSteerCounters looks at the counters of a real server, and resets them.
func TestSteerCounters(t *testing.T) {
	o := operate(t, threeAYear)
	o.denyAlice()
	o.weir(0, "peek api user=alice", `3 per year +3 of 3 +0 +in \d+`, `weir except add api user=alice --amount 10x`)
	o.weir(0, "peek api user=alice --output json", `"remaining": 0,`)
	o.weir(1, "peek api path=/", `No rule matches it`)
	o.weir(1, "reset api path=/", `No rule matches it`)
	o.weir(0, "reset api user=alice", `Set to zero: 1 counter\.`, `0 of 3 +3 +now`)
	if code := o.request("alice"); code != http.StatusOK {
		t.Errorf("after the reset: got %d", code)
	}
	o.weir(0, `peek api 'user=\x1b[31m\x00\xff'`, `descriptor 'user=\\x1b\[31m\\x00\\xff'`, `0 of 3`)
}

// TestSteerExceptions adds, lists and removes exceptions of a real server.
func TestSteerExceptions(t *testing.T) {
	o := operate(t, threeAYear)
	out := o.weir(0, `except add api user=alice --deny --for 1h --reason "abuse, see chat"`, `deny api user=alice until .* \((60 min|1 h) left\)`)
	if code := o.request("alice"); code != http.StatusTooManyRequests {
		t.Errorf("denied by an exception: got %d", code)
	}
	if code := o.request("bob"); code != http.StatusOK {
		t.Errorf("no exception: got %d", code)
	}
	id := regexp.MustCompile(`weir (except remove .*)\n`).FindStringSubmatch(out)
	if id == nil {
		t.Fatalf("no command removes it: %s", out)
	}
	o.weir(0, "except list", `1 exception, uses on this server`, `deny .* 1 +ops +api user=alice\n`, `abuse, see chat\n`)
	o.weir(0, "except list shop", `There are no exceptions`)
	o.weir(0, "peek api user=alice", `exception \S+ deny until`, `denies every request`, `3 per year +0 of 3 +- +denied `)
	o.weir(0, id[1], `is removed`)
	o.weir(0, `except add apii user=alice --deny --for 1s --reason typo`, `note: no rule has the domain apii, did you mean api\?\n`, `deny apii user=alice until`)
	o.weir(0, `except add apii user=alice --deny --for 1s --reason typo --output json 2>/dev/null`, `"note": "no rule has`)
	o.weir(1, id[1], `weir: the server at \S+ answers: `)
	if code := o.request("alice"); code != http.StatusOK {
		t.Errorf("after the exception: got %d", code)
	}
}

// TestSteerWithToken changes nothing without the token, which no output shows.
func TestSteerWithToken(t *testing.T) {
	dir := rules(t, "token", "swordfish-swordfish-swordfish-swordfish\n", "other", "trout-trout-trout-trout\n")
	o := operate(t, good, "--admin-token-file="+dir+"/token")
	for _, out := range []string{
		o.weir(2, "reset api user=alice", `refuses this: .*; --token-file names the file of its token\n`),
		o.weir(2, "reset api user=alice --token-file "+dir+"/other", `refuses this: .*; it does not accept the token of --token-file\n`),
		o.weir(0, "reset api user=alice --token-file "+dir+"/token", `Set to zero: \d`),
		o.weir(0, "peek api user=alice --token-file "+dir+"/token", `0 of 3`),
	} {
		if strings.Contains(out, "swordfish") {
			t.Errorf("the token is shown: %s", out)
		}
	}
}
