package descriptors

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/internal/limiter"
)

// judged compares the rules that Match finds with the rules that the judge finds. It returns the
// number of rules for each descriptor, and the number of descriptors that name a hold. It does
// nothing if Load refuses the rules for a reason that the judge does not know.
func judged(t *testing.T, rules string, ways ...[]limiter.Entry) (found []int, holds int) {
	t.Helper()
	list := naiveTree(rules)
	file := "domain: api\ndescriptors: [" + list.yaml() + "]\n"
	tree, err := Load([]File{{"rules.yaml", []byte(file)}}, Options{})
	if err != nil {
		for _, unknown := range []string{"nested too deep", "steps are too many", "both must use one entry", "names the holds of"} {
			if strings.Contains(err.Error(), unknown) {
				return nil, 0
			}
		}
		t.Fatalf("loading %s: %v", file, err)
	}
	for _, way := range ways {
		want, wantHold := list.matchHold(way)
		work := MaxWork
		asked := way
		rule, hold, way := tree.Match("api", asked, &work)
		if len(want) > 0 && hold != wantHold || len(want) == 0 && hold >= 0 {
			t.Fatalf("%q in %s: the hold is at %d, want %d", way, file, hold, wantHold)
		}
		whole := way
		if hold >= 0 {
			way, holds = slices.Delete(slices.Clone(way), hold, hold+1), holds+1
		}
		var got []judgedRule
		for r := rule; r != nil; r = r.Above {
			counted := r.Counted(way)
			if len(counted) > len(way) || !slices.Equal(counted, way[:len(counted)]) {
				t.Fatalf("%v of %s counts %q of %q", r, file, counted, way)
			}
			own := ""
			for _, l := range r.Limits {
				own = l.HoldKey()
			}
			got = append(got, judgedRule{int(r.Metadata["id"].(float64)), len(counted), own, r.IsKeyless()})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q in %s: got the rules %v, want %v (line, levels, hold)", whole, file, got, want)
		}
		root := tree.domains["api"]
		all := append(slices.Collect(root.all(asked[0], &work)), nil)
		if first := root.next(asked[0], &work); all[0] != first {
			t.Fatalf("%q in %s: leads to %v, but first of all to %v", whole, file, first, all)
		}
		found = append(found, len(got))
	}
	return found, holds
}

// FuzzMatch compares Match with the naive search.
func FuzzMatch(f *testing.F) {
	for _, rest := range []string{"", "\n.", "\n.+"} { // a rule without a key on the first level
		f.Add("user\nuser=a*\nuser=alice\n path=/login\n path\npath=*x*y"+rest, "user=alice\npath=/login")
		f.Add("h=*.com\nh=a*\nh=*a*\nh=*\nh=a*b*c\nh=a**c"+rest, "h=abbc")
		f.Add("h=*b\nh=a*\nh\n x=**"+rest, "h=\nx=")
		f.Add("a_b=c\na=b_c\na=*_c"+rest, "a=b_c")
		f.Add("h=[a,b,c\nh=~[a-d]+\nh=b*\nh=~.*\nh"+rest, "h=d")
		f.Add("ip=<10.0.0.0/8,::/0\nip=<10.1.0.0/16\nip=10.*\nip=[10.1.2.3"+rest, "ip=::ffff:10.1.2.4")
		f.Add("ip=<fe80::/10\nip=~(?i)FE80.*"+rest, "ip=fe80::1%eth0")
		f.Add("!user\n .path=/login\n  !m\n   x"+rest, "user=a\npath=/login\nm=1\nx=2\ny=3")
		f.Add("!ip=<10.0.0.0/8\n !path=~/v[0-9]/.*\n  .m=[GET,HEAD"+rest, "ip=10.1.2.3\npath=/v1/a\nm=HEAD")
		f.Add("!+user\n .path=/login\n  .-m\nh2=a\n.-x"+rest, "user=a\ng=1\nh=2\npath=/login")
	}
	f.Fuzz(func(t *testing.T, rules, descriptor string) {
		// Only printable ASCII, because FuzzLoad tests the other characters of YAML.
		if !strings.ContainsFunc(rules+descriptor, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' }) {
			judged(t, rules, entries(strings.Split(descriptor, "\n")...))
		}
	})
}

// TestMatchAgainstJudge compares Match with the judge for many small trees whose rules overlap.
// Half of the trees have few keys and values, so that descriptors lead far into them.
func TestMatchAgainstJudge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	address := func() string {
		return pick("10.0.0.1", "10.0.0.2", "10.0.1.1", "10.1.0.1", "11.0.0.1", "::ffff:10.0.0.1", "::ffff:a00:101", "2001:db8::1", "2001:db8:1::1", "2001:DB8::2%eth0", "fe80::1%3",
			"10.0.0.1:80", "[2001:db8::1]", "10.0.0.1%eth0", "10.0.0", "10.0.0.256", "10.0.0.01", ":::", "1::2::3", "::ffff:10.0.0.1.2", "%", "1::%", "")
	}
	network := func() string {
		return pick("0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/16", "10.0.0.0/24", "10.0.0.0/31", "10.0.0.1/32", "::/0", "2001:db8::/32", "2001:db8::/48", "2001:db8::1/128", "fe80::/10")
	}
	value := func() string {
		if random.IntN(2) == 0 {
			return address()
		}
		return pick("a", "b", "ab", "ba", "abc", "a\nb", "c", "abab", "/v1/a", "/v22/b", "[a-c]+", "a*")
	}
	node := func() string {
		switch random.IntN(6) {
		case 0:
			return "[" + value() + "," + value() + "," + pick(value(), "a*", "*b", "10.*", "*")
		case 1, 2:
			return "<" + network() + "," + network()
		case 3:
			return "~" + pick(".*", "[a-c]+", "a|ab", "(?i)AB?", "/v[0-9]+/.*", "10\\..*", "", "a", ".", "(a|b)*c?", "[^b]*", ".*:.*", "^a$", "(?:ab)+", "(a|b)?c", "a(b(c)?)*", "(?i)a.*b", "x*abc|b", "(?:abc){0,2}", "(?:b){1,2}a?", "\\x{FFFD}*.")
		case 4:
			return pick("a*", "*b", "*", "**", "10.*", "*:*", "/v*/a", "")
		default:
			return strings.ReplaceAll(value(), "\n", "")
		}
	}
	wide := func() (rules string, ways [][]limiter.Entry) {
		for range random.IntN(24) {
			rules += pick("", "", "", " ") + pick("", ".", "!") + pick("k", "k", "k", "l") + "=" + node() + "\n"
		}
		for range 20 {
			way := []limiter.Entry{{Key: pick("k", "k", "k", "l"), Value: value()}}
			if random.IntN(4) == 0 {
				way = append(way, limiter.Entry{Key: pick("k", "l"), Value: value()})
			}
			ways = append(ways, way)
		}
		return rules, ways
	}
	deep := func() (rules string, ways [][]limiter.Entry) {
		for range random.IntN(16) {
			rules += strings.Repeat(" ", random.IntN(4)) + pick("", ".", "!", "!", "!", ".+", "!+", ".-") + pick("a", "a", "a", "b", "") + pick("", "", "=x", "=y*", "=*", "=[x,z", "=[z,y*", "=~[xy]+", "=<10.0.0.0/8") + "\n"
		}
		for range 5 {
			var descriptor []string
			for range 1 + random.IntN(4) {
				descriptor = append(descriptor, pick("a", "a", "a", "b", "c", "h", "g")+pick("", "=x", "=yy", "=z", "=10.0.0.1"))
			}
			ways = append(ways, entries(descriptor...))
		}
		return rules, ways
	}
	for i, draw := range []func() (string, [][]limiter.Entry){wide, deep} {
		name := []string{"wide", "deep"}[i]
		found, asked, longest, holds := 0, 0, 0, 0
		for range 700 {
			rules, ways := draw()
			asked += len(ways)
			each, named := judged(t, rules+pick("", "", "", "", "", "", ".", ".+"), ways...)
			holds += named
			for _, n := range each {
				found, longest = found+min(n, 1), max(longest, n)
			}
		}
		if found < asked/4 || found > asked*3/4 {
			t.Errorf("%s: %d of %d descriptors have a rule, want a quarter to three quarters", name, found, asked)
		}
		if name == "deep" && holds < 100 {
			t.Errorf("%d entries name holds, want more", holds)
		}
		if longest < 2 || name == "deep" && longest < 3 {
			t.Errorf("%s: at most %d rules hold for a descriptor, want more", name, longest)
		}
	}
}
