package main

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestDocumentShowsTheResults fails if a document or a plot does not show the results in
// results.json, or if an experiment is missing there. A target without results is neither
// reached nor missed.
func TestDocumentShowsTheResults(t *testing.T) {
	var r results
	testenv.OK(t, r.read(filepath.Join(repository, plots, "results.json")))
	for _, d := range documents {
		for _, table := range d.tables {
			if text := table.text(&r); strings.Contains(text, notMeasured) {
				t.Errorf("table %s: %s\nrun the experiment: go -C bench run . -run NAME", table.name, text)
			}
			if table.name == "machine" {
				continue // always known
			}
			empty := strings.Split(table.text(new(results)), "\n")
			for _, row := range empty[min(2, len(empty)-1):] {
				if !strings.Contains(row, notMeasured) || strings.Contains(row, "reached") || strings.Contains(row, "missed") {
					t.Errorf("%s: got %q of no figures", table.name, row)
				}
			}
		}
	}
	files := testenv.Must(drawn(repository, &r))(t)
	for name, want := range files {
		got := testenv.Must(os.ReadFile(name))(t)
		if !bytes.Equal(got, want) {
			t.Errorf("%s does not show the results; run: go -C bench run . -draw", name)
		}
	}
}

// TestExperiments runs the experiments that can be short, to test the program. The
// results of such short runs mean nothing.
func TestExperiments(t *testing.T) {
	testenv.RedisServer(t) // skips the test without redis-server
	dir := copyDocuments(t)
	testenv.OK(t, runFor(t, "-root", dir, "-rounds", "1", "-seconds", "150ms", "-run", "^(connections|tuning|allocations|cost|cluster|lines|wakeups|neighbours)$"))
	var r results
	testenv.OK(t, r.read(filepath.Join(dir, plots, "results.json")))
	if len(r.Connections) != 4 || r.Connections[0].Floor.Server.median() <= 0 || r.Connections[0].Memory.Server.median() <= 0 || r.Connections[0].Redis.Calls.median() <= 0 {
		t.Errorf("connections: got %+v", r.Connections)
	}
	if len(r.Tuning) != 3 || r.Tuning[2].Server.median() <= 0 || len(r.Allocations) != 1 {
		t.Errorf("tuning: got %+v, allocations %+v", r.Tuning, r.Allocations)
	}
	for _, show := range []func(*results) string{costTable, waysTable, capacityTable, machinesTable, clusterTable, wakeupsTable} {
		if text := show(&r); strings.Contains(text, notMeasured) || strings.Contains(text, "NaN") {
			t.Errorf("got\n%s", text)
		}
	}
	for _, target := range r.redisTargets() {
		if measured := len(target.got) == 1 && target.got[0] > 0; !measured && !strings.HasPrefix(target.name, "p") && !strings.HasPrefix(target.name, "bytes") { // other experiments measure these
			t.Errorf("%s: got %v", target.name, target.got)
		}
	}
	if n := len(r.Lines); n > 0 && (n < len(luaLines) || r.Lines[0].Instructions <= 0) { // empty if the machine cannot count instructions
		t.Errorf("lines: got %+v", r.Lines)
	}
	for _, w := range r.Wakeups {
		if w.Switches.median() <= 0 || w.Name == nameRedis && w.RedisSwitches.median() <= 0 {
			t.Errorf("got %+v", w)
		}
	}
	// On a busy machine, late requests come all at once, so that quiet users may be denied, too.
	if n := r.Neighbours; n.Quiet.Admitted == 0 || n.Quiet.Admitted > n.Quiet.Asked || n.Noisy.Admitted >= n.Noisy.Asked {
		t.Errorf("quiet and noisy users: %+v, want quiet requests admitted and noisy ones denied", n)
	}
	for _, name := range []string{"latency.svg", "descriptors.svg", "rules.svg"} {
		if svg, err := os.ReadFile(filepath.Join(dir, plots, name)); err != nil || !bytes.Contains(svg, []byte("<svg")) {
			t.Errorf("%s: %v, %.40q", name, err, svg)
		}
	}
}

// runFor runs the program with flags.
func runFor(t *testing.T, flags ...string) error {
	o, err := parse(flags)
	if err != nil {
		return err
	}
	return run(t.Context(), o)
}

// copyDocuments returns a directory with copies of the documents that show results.
func copyDocuments(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, d := range documents {
		testenv.Write(t, filepath.Join(dir, d.name), testenv.Read(t, filepath.Join(repository, d.name)))
	}
	return dir
}

// If a document is missing, or has no positions for the tables, the program fails before
// it measures anything.
func TestDocumentIsReadFirst(t *testing.T) {
	empty, other, half := t.TempDir(), copyDocuments(t), copyDocuments(t)
	testenv.Write(t, filepath.Join(other, "docs/performance.md"), "# Performance\n")
	testenv.OK(t, os.Remove(filepath.Join(half, "docs/scale.md")))
	for dir, want := range map[string]string{
		empty: "performance.md: no such file or directory",
		other: "performance.md: no place for the table latency",
		half:  "scale.md: no such file or directory",
	} {
		if err := runFor(t, "-root", dir, "-run", "^allocations$"); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := os.Stat(filepath.Join(dir, plots)); err == nil {
			t.Errorf("%s: something was measured", dir)
		}
	}
}

// The commands in README.md use existing flags and names. e2e tests the benchmark of a
// server with a server.
func TestCommandsOfDocument(t *testing.T) {
	text := testenv.Must(os.ReadFile("README.md"))(t)
	block := regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindSubmatch(text)
	if block == nil {
		t.Fatal("the document has no commands")
	}
	measures, others := 0, 0
	for line := range strings.Lines(string(block[1])) {
		command, _, _ := strings.Cut(strings.TrimSpace(line), "   ")
		command, _, _ = strings.Cut(command, " > ")
		if flags, is := strings.CutPrefix(command, "make "); is { // a dry run prints the command
			command = string(testenv.Must(exec.Command("sh", "-c", "make -C "+repository+" --no-print-directory --dry-run "+flags).Output())(t))
		}
		if _, flags, is := strings.Cut(command, "-C bench run ."); is {
			measures++
			flags, _, _ = strings.Cut(flags, "\n")
			if _, err := parse(strings.Fields(strings.ReplaceAll(flags, "'", ""))); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		} else if strings.Contains(command, "-bench=. -benchmem -count=10") {
			others++
		} else {
			t.Errorf("%s is not known to this test", line)
		}
	}
	if measures != 4 || others != 1 {
		t.Errorf("got %d measurements and %d benchmarks", measures, others)
	}
}

// The server can be built without the record of denials, and a profile shows the record's cost.
func TestDenialsCanBeMeasured(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "internal", "server", "app.go"))
	if err != nil || bytes.Count(text, []byte(recording)) != 1 {
		t.Errorf("app.go hands on who records denials in another way (error: %v)", err)
	}
	const profile = "      flat  flat%   sum%        cum   cum%\n" +
		"     0.01s 0.094%  0.56%      0.53s  4.17%  weir/internal/rls.entrance.Observe\n" +
		"     0.01s 0.079% 0.079%         1s  7.87%  weir/internal/operators.(*Observer).Observe\n" +
		"     0.06s  0.47%  0.55%      0.99s  7.79%  weir/internal/operators.(*Observer).Observe.(*Plan).Outcomes.func1 (inline)\n"
	if found := observed.FindStringSubmatch(profile); found == nil || found[1] != "7.87" {
		t.Errorf("got %q", found)
	}
}

// Figures keep the name of their machine.
func TestMachines(t *testing.T) {
	old, other := machine{CPU: "old"}, machine{CPU: "other"}
	var r results
	var all []string
	for _, e := range experiments {
		all = append(all, e.name)
	}
	for _, step := range []struct {
		on      machine
		ran     []string
		machine machine
		others  int
	}{
		{old, all, old, 0},
		{other, []string{"cost", "reload"}, old, 2},
		{old, []string{"cost"}, old, 1},
		{other, all[1:], old, len(all) - 1},
		{other, all[:1], other, 0},
		{old, []string{"reload"}, other, 1},
	} {
		for _, name := range step.ran {
			r.ranOn(step.on, name, length{3, 1.5})
		}
		if r.Machine != step.machine || len(r.Elsewhere) != step.others {
			t.Errorf("%v on %s: the machine is %s, others %v, want %s and %d others", step.ran, step.on.CPU, r.Machine.CPU, r.Elsewhere, step.machine.CPU, step.others)
		}
	}
	for b, rounds := range map[length]string{{3, 1.5}: "Rounds of a, c: 4 of 1 s.\nRounds of b: 3 of 1.5 s.", {4, 1}: "Rounds: 4 of 1 s."} {
		r.Lengths = map[string]length{"b": b, "c": {4, 1}, "a": {4, 1}}
		want := "other, 0 cores, , , Redis  with .\n" + rounds + "\nOn another machine, not to be compared: reload on old, 0 cores, , , Redis  with ."
		testenv.Equal(t, machineLine(&r), want, "the line")
	}
}

// A scaled cost is compared with the floor of the same round. Figures without a floor are
// shown, too.
func TestScaledTable(t *testing.T) {
	memory, redis := cost{Server: rounds{6, 9, 9}}, cost{Server: rounds{12, 13, 15}, Redis: rounds{5}, Calls: rounds{0.5}}
	got := scaledTable("things", []scaled{{N: 1, Floor: cost{Server: rounds{10, 12, 10}}, Memory: memory, Redis: redis}, {N: 4, Memory: memory, Redis: redis}})
	want := `|things|floor, µs|server in memory, µs|in floors|server with Redis, µs|in floors|Redis, µs|calls per decision|
|---|---|---|---|---|---|---|---|
|1|10.0|9.0|0.75|13.0|1.20|5.0|0.500|
|4|not measured|9.0|not measured|13.0|not measured|5.0|0.500|`
	testenv.Equal(t, got, want, "the table")
}

// Each cost is compared with a way that counts as many hits at the same rate, and with the
// floor at the same rate.
func TestCostIsComparedWithItsLike(t *testing.T) {
	r := results{Cost: []cost{
		{Name: nameFloor, Descriptors: 1, Server: rounds{20}},
		{Name: nameFloor, Descriptors: 10, Server: rounds{30}},
		{Name: nameFloor, Load: loadLow, Descriptors: 1, Server: rounds{200}},
		{Name: nameScript, Descriptors: 1, Redis: rounds{4}},
		{Name: nameScript, Descriptors: 3, Redis: rounds{8}},
		{Name: nameScript, Load: loadLow, Descriptors: 1, Redis: rounds{40}},
	}}
	for _, want := range []struct {
		load            string
		limits          int
		floors, scripts float64
	}{
		{"", 1, 30, 15},
		{loadHot, 1, 30, 15},
		{loadSliding, 3, 30, 7.5},
		{"", 10, 20, 0}, // without a figure for its way
		{loadLow, 1, 3, 1.5},
		{loadMiddle, 1, 0, 0},
	} {
		c := cost{Name: nameRedis, Load: want.load, Descriptors: want.limits, Server: rounds{600}, Redis: rounds{60}}
		if floors, scripts := r.floors(c).median(), r.leastScripts(c).median(); floors != want.floors || scripts != want.scripts {
			t.Errorf("%s, %d limits: got %v floors and %v least scripts, want %v and %v", want.load, want.limits, floors, scripts, want.floors, want.scripts)
		}
	}
}

// The number of machines is rounded up and leaves room. Network traffic is in bits.
func TestMachinesForDecisions(t *testing.T) {
	r := results{Cost: []cost{
		{Name: nameRedis, Descriptors: 3, Redis: rounds{7}, Server: rounds{21.1}, Bytes: rounds{250}},
		{Name: nameRedis, Load: loadHot, Descriptors: 1, Redis: rounds{3}, Server: rounds{20}, Bytes: rounds{60}},
	}}
	want := `|limits|keys|Redis, µs|decisions/s of one Redis|Weir, µs|decisions/s of one core of Weir|bytes to and from Redis|
|---|---|---|---|---|---|---|
|3|uniform|7.0|142900|21.1|47400|250|
|1|one hot key|3.0|333300|20.0|50000|60|`
	testenv.Equal(t, capacityTable(&r), want, "limits")
	want = `|decisions/s|limits|Redis primaries|cores of Weir|network of Redis, Gbit/s|
|---|---|---|---|---|
|100000|3|1|4|0.2|
|1000000|3|10|31|2.0|`
	testenv.Equal(t, machinesTable(&r), want, "machines")
}

// A longer key takes more memory, by MEMORY USAGE and by the allocator.
func TestMemoryByKey(t *testing.T) {
	testenv.RedisServer(t) // skips the test without redis-server
	b := &bench{workshop: &workshop{dir: t.TempDir()}}
	defer b.stopAll()
	got := testenv.Must(b.memoryByKey(t.Context()))(t)
	if len(got) != 5 {
		t.Fatalf("got %+v, want five lengths", got)
	}
	for i, k := range got[1:] {
		last := got[i]
		if k.KeyBytes <= last.KeyBytes || k.Usage < last.Usage || k.Used < last.Used-1 || k.Used < k.Usage {
			t.Errorf("after %+v got %+v", last, k)
		}
	}
}

// An error reply of Redis is an error, and not a figure.
func TestRefusalOfRedis(t *testing.T) {
	conn := testenv.Must((&program{address: testenv.RedisServer(t).Addr()}).redisConn(t.Context()))(t)
	defer conn.Close()
	conn.add("SET", "word", "no number")
	conn.add("INCRBY", "word", "1")
	if got, err := conn.send(2); err == nil || !strings.HasPrefix(err.Error(), "ERR ") {
		t.Errorf("got %q, %v, want the refusal", got, err)
	}
}

// A target is reached only in both time and instructions. Only a missed target has a reason.
func TestVerdict(t *testing.T) {
	for want, row := range map[string]interface{ row() string }{
		"| x | 2.0 | 2.0 (1.0–9.0) | reached |":      target{"x", rounds{1, 9, 2}, 2, "%.1f"},
		"| x | 2.0 | 2.1 (1.0–9.0) | **missed** |":   target{"x", rounds{1, 9, 2.1}, 2, "%.1f"},
		"| x | 2.0 | 3.0 | **missed** |":             target{"x", rounds{3}, 2, "%.1f"},
		"| x | 2.0 | 4.0 (2.0–4.0) | **missed** |":   target{"x", rounds{2, 4}, 2, "%.1f"},
		"| x | 2.0 | NaN | **missed** |":             target{"x", rounds{math.NaN()}, 2, "%.1f"},
		"| x | 2.0 | not measured |  |":              target{"x", nil, 2, "%.1f"},
		"| x | 2.0 | 2.0 |  | reached |  |":          redisTarget{target{"x", rounds{2}, 2, "%.1f"}, nil, "why"},
		"| x | 2.0 | 2.0 | 1.0 | reached |  |":       redisTarget{target{"x", rounds{2}, 2, "%.1f"}, rounds{1}, "why"},
		"| x | 2.0 | 2.0 | 2.1 | **missed** | why |": redisTarget{target{"x", rounds{2}, 2, "%.1f"}, rounds{2.1}, "why"},
		"| x | 2.0 | 3.0 | 1.0 | **missed** | why |": redisTarget{target{"x", rounds{3}, 2, "%.1f"}, rounds{1}, "why"},
		"| x | 2.0 | not measured |  |  |  |":        redisTarget{target{"x", nil, 2, "%.1f"}, nil, "why"},
	} {
		testenv.Equal(t, row.row(), want, "the row")
	}
}
